#!/usr/bin/env python3
"""A picture of a trace (options.trace_path): who worked when, and who sat out meanwhile.

    ./timeline.py TRACE.json PICTURE.png [FROM TO]

Above, all of it; below, enlarged, FROM to TO in seconds since the first tick, or what is around the longest encode.
Whole or cut off: a trace of a process that died lacks the end of its array. Needs nothing but Python.
"""
import json
import struct
import sys
import zlib

WIDTH, LEFT, RIGHT, MARGIN = 1640, 196, 28, 28

BACK, LENS, PANEL, LINE = (15, 16, 20), (21, 23, 28), (25, 27, 34), (46, 49, 60)
INK, FAINT, BRIGHT = (176, 180, 190), (112, 117, 130), (236, 238, 242)
TICK, HOT, DEFERRED, ENCODE, SEED = (122, 128, 150), (232, 92, 84), (84, 152, 232), (255, 168, 48), (178, 122, 60)
LIFE, STEPS, STEP = (30, 56, 54), (54, 126, 107), (72, 176, 146)
PENDING, HELD, PAUSED, QUARANTINED, BAD, DROP = (104, 92, 156), (52, 84, 150), (86, 90, 102), (140, 34, 44), (255, 64, 72), (250, 220, 90)
BATCHES = {"HOT": HOT, "DEFERRED": DEFERRED, "ENCODE": ENCODE, "seed": SEED, "detach": PAUSED}
STATES = {"pending": PENDING, "encoding": ENCODE, "held": HELD, "paused": PAUSED, "quarantined": QUARANTINED}

# Letters of 5 x 9 dots: a character a row from the top, five bits each, the left dot is the highest; the last two rows may lack.
DOTS = dict(entry.split("=", 1) for entry in """
0=ehjlphe 1=4c4444e 2=eh168gv 3=eh161he 4=26aiv22 5=vgu11he 6=68guhhe 7=v124888 8=ehhehhe 9=ehhf12c
A=ehhvhhh B=uhhuhhu C=ehggghe D=uhhhhhu E=vgguggv F=vgguggg G=ehgnhhf H=hhhvhhh I=e44444e J=72222ic K=hikokih L=ggggggv M=hrllhhh
N=hpljhhh O=ehhhhhe P=uhhuggg Q=ehhhlid R=uhhukih S=fgge11u T=v444444 U=hhhhhhe V=hhhhha4 W=hhhllla X=hha4ahh Y=hha4444 Z=v1248gv
a=00e1fhf b=gguhhhu c=00eggge d=11fhhhf e=00ehvge f=698s888 g=00fhhhf1e h=gguhhhh i=40c444e j=2062222ic k=ggikoki l=c44444e m=00qllll
n=00uhhhh o=00ehhhe p=00uhhhugg q=00fhhhf11 r=00mpggg s=00fge1u t=88s8896 u=00hhhjd v=00hhha4 w=00hhlla x=00ha4ah y=00hhhhf1e z=00v248v
.=00000cc ,=00000cc48 :=0cc0cc0 -=000e000 +=044v440 %=op248j3 (=2488842 )=8422248 /=01248g0 _=0000000v "=aa00000 '=4400000 #=aavavaa
!=4444404 ?=eh12404 <=248g842 >=8421248
""".split())
DOTS["="] = "00v0v00"


class Sheet:
    """Pixels, and their way into a PNG file."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.pixels = bytearray(bytes(BACK) * (width * height))

    def box(self, left, top, right, bottom, colour):
        """From `left` to before `right`: at least a pixel wide."""
        left, top, right, bottom = max(round(left), 0), max(round(top), 0), round(right), min(round(bottom), self.height)
        right = min(max(right, left + 1), self.width)
        if left >= right:
            return
        row = bytes(colour) * (right - left)
        for y in range(top, bottom):
            at = (y * self.width + left) * 3
            self.pixels[at : at + len(row)] = row

    def text(self, left, top, text, colour, scale=2):
        """Returns where the next letter would go."""
        for letter in text:
            for y, row in enumerate(DOTS.get(letter, "" if letter == " " else "vhhhhhv")):
                bits = int(row, 32)
                for x in range(5):
                    if bits >> (4 - x) & 1:
                        self.box(left + x * scale, top + y * scale, left + (x + 1) * scale, top + (y + 1) * scale, colour)
            left += 6 * scale
        return left

    def mark(self, x, top, colour, size=6):
        """A triangle that points down at `x`."""
        for y in range(size + 1):
            self.box(x - size + y, top + y, x + size - y + 1, top + y + 1, colour)

    def write(self, path):
        def chunk(kind, body):
            return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

        stride = self.width * 3
        rows = b"".join(b"\0" + self.pixels[y * stride : (y + 1) * stride] for y in range(self.height))
        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def text_width(text, scale=2):
    return len(text) * 6 * scale - scale


def duration(seconds):
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}" if seconds * scale < 100 else f"{seconds * scale:.0f} {unit}"


class Slice:
    """Something that took time, in seconds since the first tick."""

    def __init__(self, name, begin, end, args):
        self.name, self.begin, self.end, self.args = name, begin, end, args


class Trace:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            events = json.loads(text)
        except ValueError:
            events = json.loads(text.rstrip().rstrip(",") + "]")
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        zero = min((e["ts"] for e in events if e["ph"] != "M"), default=0)
        second = lambda ts: (ts - zero) / 1e6
        self.model = next((e["args"]["name"] for e in events if e["name"] == "process_name"), "rte")
        self.tracks = {names[number]: [] for number in sorted(names) if names[number] != "sessions"}
        self.sessions, self.marks, open_slices, lives = {}, [], {}, {}
        self.end = 0.0
        for e in events:
            phase, at = e["ph"], second(e["ts"])
            if phase == "X":
                self.tracks[names[e["tid"]]].append(Slice(e["name"], at, at + e["dur"] / 1e6, e["args"]))
            elif phase == "b":
                if e["name"].startswith("session "):
                    lives[e["id"]] = self.sessions.setdefault(e["name"], [])
                open_slices.setdefault(e["id"], []).append(Slice(e["name"], at, None, e.get("args", {})))
            elif phase == "e":
                done = open_slices[e["id"]].pop()
                done.end = at
                lives[e["id"]].append(done)
            elif phase == "n":
                lives[e["id"]].append(Slice(e["name"], at, at, e["args"]))
            elif phase == "i":
                self.marks.append(Slice(e["name"], at, at, e["args"]))
            if phase != "M":
                self.end = max(self.end, at + (e.get("dur", 0) / 1e6))
        for number, slices in open_slices.items():
            for left in slices:  # the process ended before they did
                left.end = self.end
                lives[number].append(left)
        for slices in list(self.tracks.values()) + list(self.sessions.values()):
            slices.sort(key=lambda s: (s.begin, -(s.end or 0)))
        self.ticks = self.tracks.pop("ticks", [])

    def encodes(self):
        return [s for name, track in self.tracks.items() if name.startswith("ENCODE") for s in track if s.name == "ENCODE"]

    def period(self):
        gaps = sorted(b.begin - a.begin for a, b in zip(self.ticks, self.ticks[1:]))
        return gaps[len(gaps) // 2] if gaps else self.end or 1.0

    def interesting(self):
        """What to enlarge: some ticks before and after the longest encode, else around the longest tick."""
        among = self.encodes() or self.ticks
        if not among:
            return 0.0, max(self.end, 1e-6)
        most = max(among, key=lambda s: s.end - s.begin)
        around = max(5 * self.period(), (most.end - most.begin) * 0.35)
        return max(most.begin - around, 0.0), min(most.end + around, self.end)


class View:
    """A stretch of time across the sheet."""

    def __init__(self, sheet, begin, end):
        self.sheet, self.begin, self.end = sheet, begin, max(end, begin + 1e-9)
        self.left, self.right = LEFT, sheet.width - RIGHT

    def x(self, time):
        return self.left + (time - self.begin) / (self.end - self.begin) * (self.right - self.left)

    def box(self, begin, end, top, bottom, colour, gap=0):
        if end < self.begin or begin > self.end:
            return
        left, right = self.x(max(begin, self.begin)), self.x(min(end, self.end))
        self.sheet.box(left, top, right - gap if right - left > 3 * gap else right, bottom, colour)

    def has(self, time):
        return self.begin <= time <= self.end

    def axis(self, top, bottom):
        """Lines and times: as many as have room."""
        span = self.end - self.begin
        step = next(s for s in (m * 10.0**e for e in range(-7, 5) for m in (1, 2, 5)) if span / s <= 14)
        scale, unit = (1, "s") if step >= 0.1 else (1e3, "ms") if step >= 1e-4 else (1e6, "us")
        digits = 1 if unit == "s" and step < 1 else 1 if unit == "ms" and step < 1e-3 else 0
        number = int(self.begin / step + 0.999)
        while number * step <= self.end:
            x = self.x(number * step)
            self.sheet.box(x, top, x + 1, bottom, LINE)
            label = f"{number * step * scale:.{digits}f} {unit}"
            if x + text_width(label) / 2 < self.sheet.width - 4:
                self.sheet.text(x - text_width(label) / 2, bottom + 8, label, FAINT)
            number += 1


def ink_on(colour):
    return BACK if 2 * colour[0] + 5 * colour[1] + colour[2] > 700 else BRIGHT


def label(sheet, middle, text, colour=INK):
    """To the left of a track."""
    while text_width(text) > LEFT - MARGIN - 10:
        text = text[:-1]
    sheet.text(LEFT - 12 - text_width(text), middle - 7, text, colour)


def fits(view, begin, end, text):
    return text_width(text) + 10 < view.x(min(end, view.end)) - view.x(max(begin, view.begin))


def draw_ticks(view, trace, top, height):
    """Their lengths as heights; the line is as high as the time from one to the next."""
    period, shown = trace.period(), [t for t in trace.ticks if t.end >= view.begin and t.begin <= view.end]
    most = max([t.end - t.begin for t in shown] + [period]) * 1.05
    for t in shown:
        tall = max((t.end - t.begin) / most * height, 2)
        end = max(t.end, t.begin + min(period * 0.8, (view.end - view.begin) / 500))
        view.box(t.begin, end, top + height - tall, top + height, BAD if t.args["late"] else TICK, gap=1)
    level = top + height - period / most * height
    for x in range(view.left, view.right, 6):
        view.sheet.box(x, level, x + 3, level + 1, INK)
    label(view.sheet, top + 10, "ticks", TICK)
    label(view.sheet, top + 30, f"- {duration(period)}", FAINT)


def draw_batches(view, slices, top, height, with_text):
    for s in slices:
        if s.end < view.begin or s.begin > view.end:
            continue
        colour = BAD if s.args["status"] else BATCHES.get(s.name, TICK)
        view.box(s.begin, s.end, top, top + height, colour, gap=1)
        words = f"{s.name} of {s.args['rows']}" if s.args["rows"] > 1 else f"{s.name}: session {s.args['first_session']}"
        words += f", {duration(s.end - s.begin)}"
        if with_text and fits(view, s.begin, s.end, words):
            middle = (view.x(max(s.begin, view.begin)) + view.x(min(s.end, view.end))) / 2
            view.sheet.text(middle - text_width(words) / 2, top + height / 2 - 7, words, ink_on(colour))


def draw_session(view, slices, ticks, top, height, with_text):
    """A life, a cell for each tick that it steps in, and what it does where it does not step."""
    out = [s for s in slices if s.name in STATES]
    for life in (s for s in slices if s.name.startswith("session ")):
        view.box(life.begin, life.end, top, top + height, LIFE if with_text else STEPS)
        if with_text:
            for t in ticks:
                is_in = life.begin <= t.begin < life.end and t.end >= view.begin and t.begin <= view.end
                if is_in and not any(s.begin <= t.begin < s.end for s in out):
                    view.box(t.begin, t.end, top, top + height, STEP, gap=1)
    for s in out:
        view.box(s.begin, s.end, top, top + height, STATES[s.name])
        count = sum(s.begin <= t.begin < s.end for t in ticks)
        words = f"{s.name}: sits out {count} tick{'s' if count != 1 else ''}"
        if with_text and fits(view, s.begin, s.end, words):
            view.sheet.text(view.x(max(s.begin, view.begin)) + 8, top + height / 2 - 7, words, ink_on(STATES[s.name]))
    for s in (s for s in slices if s.name == "dropped" and view.has(s.begin)):
        x = view.x(s.begin)
        view.sheet.box(x - 2, top + height / 2 - 2, x + 3, top + height / 2 + 3, DROP)


def draw_marks(view, trace, top, height, with_text):
    """What went wrong, above the ticks, in words where there is room."""
    names = ("missed", "call failed", "row failed", "dead", "left out")
    marks = [m for m in trace.marks if view.has(m.begin) and m.name in names]
    ends = [view.x(m.begin) for m in marks[1:]] + [view.right + RIGHT]
    for m, end in zip(marks, ends):
        x = view.x(m.begin)
        view.sheet.mark(x, top - 10, BAD)
        if with_text or m.name == "dead":
            view.sheet.box(x, top, x + 1, top + height, BAD)
        count = m.args.get("points", m.args.get("facts"))
        words = f"{count} {m.name}" if count else m.name
        if with_text and x + 11 + text_width(words) + 8 < end:
            view.sheet.text(x + 11, top - 16, words, BAD)


def draw_legend(sheet, trace, left, top):
    used = {s.name for track in trace.tracks.values() for s in track} | {s.name for life in trace.sessions.values() for s in life}
    entries = [("steps", STEP)] + [(n, c) for n, c in BATCHES.items() if n in used]
    entries += [(n, c) for n, c in STATES.items() if n in used and n != "encoding"] + [("late or missed", BAD)]
    entries += [("dropped", DROP)] if "dropped" in used else []
    for name, colour in entries:
        sheet.box(left, top, left + 14, top + 14, colour)
        left = sheet.text(left + 21, top, name, INK) + 20


def headline(sheet, trace):
    x = sheet.text(MARGIN, 24, trace.model, BRIGHT, 3)
    total = next((m.args for m in trace.marks if m.name == "end"), {})
    missed = sum(m.args["points"] for m in trace.marks if m.name == "missed")
    chunks = total.get("chunks", sum(t.args["chunks"] for t in trace.ticks))
    words = f"{len(trace.sessions)} sessions, {len(trace.ticks)} ticks in {duration(trace.end)}, {chunks} chunks, {missed} deadlines missed"
    sheet.text(x + 18, 31, words if total else words + ", cut off", INK)


def draw_lens(sheet, above, below, window, top, bottom):
    """From a window above to its enlargement below."""
    for y in range(top, bottom):
        share = (y - top) / (bottom - top)
        share = share * share * (3 - 2 * share)
        left, right = (above.x(at) + (edge - above.x(at)) * share for at, edge in zip(window, (below.left, below.right)))
        sheet.box(left, y, right, y + 1, LENS)


def picture(trace, window):
    """All of the trace above, `window` of it below."""
    names = sorted(trace.sessions, key=lambda name: int(name.split()[1]))[:48]
    small, large = max(4, min(13, 260 // max(len(names), 1))), max(8, min(24, 520 // max(len(names), 1)))
    top_above, height_above = 118, 54 + len(names) * small
    top_below = top_above + height_above + 112
    height = top_below + 60 + len(trace.tracks) * 38 + len(names) * (large + 4) + 54
    sheet = Sheet(WIDTH, height)
    headline(sheet, trace)
    draw_legend(sheet, trace, MARGIN, 66)
    above, below = View(sheet, 0.0, max(trace.end, 1e-6)), View(sheet, *window)

    y, bottom = top_above, top_above + height_above
    draw_lens(sheet, above, below, window, bottom + 4, top_below - 6)
    sheet.box(above.left, y - 6, above.right, bottom + 4, PANEL)
    sheet.box(above.x(window[0]), y - 6, above.x(window[1]), bottom + 4, LINE)
    above.axis(y - 6, bottom + 4)
    draw_ticks(above, trace, y, 42)
    y += 54
    label(sheet, y + len(names) * small / 2, "sessions")
    for name in names:
        draw_session(above, trace.sessions[name], trace.ticks, y, small - 2, False)
        y += small
    draw_marks(above, trace, top_above - 6, 48, False)
    for at in window:
        sheet.box(above.x(at), top_above - 6, above.x(at) + 1, bottom + 4, INK)

    y, bottom = top_below, height - 44
    sheet.box(below.left, y - 6, below.right, bottom, PANEL)
    below.axis(y - 6, bottom)
    draw_ticks(below, trace, y, 42)
    y += 56
    for name, slices in trace.tracks.items():
        label(sheet, y + 15, name, BATCHES.get(name.split()[0], INK))
        draw_batches(below, slices, y, 30, True)
        y += 38
    y += 10
    for name in names:
        label(sheet, y + large / 2, name)
        draw_session(below, trace.sessions[name], trace.ticks, y, large, True)
        y += large + 4
    draw_marks(below, trace, top_below - 6, 48, True)
    return sheet


def main(arguments):
    if len(arguments) not in (2, 4):
        sys.exit(__doc__)
    trace = Trace(arguments[0])
    window = (float(arguments[2]), float(arguments[3])) if len(arguments) == 4 else trace.interesting()
    sheet = picture(trace, window)
    sheet.write(arguments[1])
    print(f"{arguments[1]}: {sheet.width} x {sheet.height}")


if __name__ == "__main__":
    main(sys.argv[1:])
