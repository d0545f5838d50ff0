"""What is to be seen in a picture of examples_c/timeline.py: its size, the longest bar in the encode's colour, and how many
separate bars in other colours there are beside it, at most in one row of pixels."""
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples_c"))
sys.dont_write_bytecode = True
import timeline


def rows_of(path):
    bytes_, at, packed = pathlib.Path(path).read_bytes(), 8, b""
    assert bytes_[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(bytes_):
        size, kind = struct.unpack(">I4s", bytes_[at : at + 8])
        body, checksum = bytes_[at + 8 : at + 8 + size], bytes_[at + 8 + size : at + 12 + size]
        assert struct.unpack(">I", checksum)[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
            assert body[8:] == bytes([8, 2, 0, 0, 0])
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    plain, stride = zlib.decompress(packed), 1 + 3 * width
    assert kind == b"IEND" and len(plain) == height * stride
    rows = [plain[y * stride : (y + 1) * stride] for y in range(height)]
    assert all(row[0] == 0 for row in rows)
    return width, height, [[tuple(row[x : x + 3]) for x in range(1, stride, 3)] for row in rows]


def bars(row, colour, left, right):
    """Begin and end of each run of a colour."""
    found, begin = [], None
    for x in range(left, right + 1):
        is_in = x < right and row[x] == colour
        if is_in and begin is None:
            begin = x
        if not is_in and begin is not None:
            found.append((begin, x))
            begin = None
    return found


def main(path):
    width, height, rows = rows_of(path)
    longest = max((bar for row in rows for bar in bars(row, timeline.ENCODE, 0, width)), key=lambda bar: bar[1] - bar[0], default=(0, 0))
    beside = {name: max(len(bars(row, colour, *longest)) for row in rows) for name, colour in
              (("ticks", timeline.TICK), ("hot", timeline.HOT), ("deferred", timeline.DEFERRED), ("steps", timeline.STEP))}
    print(f"{width} x {height}: encode {longest[1] - longest[0]} pixels, beside it", *(f"{name} {count}" for name, count in beside.items()))


main(sys.argv[1])
