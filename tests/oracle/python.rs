//! The rules of Python that the reference model's numbers rest on: `int(value)`, `str(value)` and `==`.

use serde_json::{Number, Value};

/// Python refuses to convert longer decimal strings.
const MAX_DIGITS: usize = 4300;

/// What `int(value)` gives, wrapped to 64 bits; `None` where Python raises. Only ASCII digits count as digits.
pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::Number(number) => Some(int_of_number(number)),
        Value::String(text) => int_of_text(text),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn int_of_number(number: &Number) -> i64 {
    if let Some(signed) = number.as_i64() {
        return signed;
    }
    if let Some(unsigned) = number.as_u64() {
        return unsigned.cast_signed();
    }
    int_of_float(number.as_f64().expect("a JSON number"))
}

/// Truncates toward zero and keeps the low 64 bits, which are exact for any size.
fn int_of_float(float: f64) -> i64 {
    const FRACTION_BITS: u64 = 52;
    let bits = float.to_bits();
    let exponent = (bits >> FRACTION_BITS) & 0x7ff;
    let mantissa = (bits & ((1 << FRACTION_BITS) - 1)) | (1 << FRACTION_BITS);
    let shift = exponent.cast_signed() - 1023 - FRACTION_BITS.cast_signed();
    let magnitude = match shift {
        64.. => 0,
        0..64 => mantissa << shift,
        -63..0 => mantissa >> -shift,
        _ => 0,
    };
    let magnitude = magnitude.cast_signed();
    if float < 0.0 { magnitude.wrapping_neg() } else { magnitude }
}

/// A decimal string: whitespace around it, one sign, single underscores between digits.
fn int_of_text(text: &str) -> Option<i64> {
    let text = trim(text);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut magnitude: i64 = 0;
    let mut count = 0;
    for group in digits.split('_') {
        if group.is_empty() {
            return None;
        }
        for character in group.chars() {
            let digit = character.to_digit(10)?;
            magnitude = magnitude.wrapping_mul(10).wrapping_add(i64::from(digit));
            count += 1;
        }
    }
    if count > MAX_DIGITS {
        return None;
    }
    Some(if negative { magnitude.wrapping_neg() } else { magnitude })
}

/// Python strips C's whitespace from an ASCII string, and Unicode's from any other. To it, Unicode's includes the four
/// ASCII separators.
fn trim(text: &str) -> &str {
    if text.is_ascii() {
        text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
    } else {
        text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
    }
}

/// What `str(value)` gives.
pub fn str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// What `repr(value)` gives; lists and dicts show their elements in this form.
pub fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => repr_of_number(number),
        Value::String(text) => repr_of_text(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", repr_of_text(key), repr(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Rust's debug form of a float has Python's digits and Python's choice of notation; only the exponent is written
/// differently: Python gives it a sign and at least two digits.
fn repr_of_number(number: &Number) -> String {
    if !number.is_f64() {
        return number.to_string();
    }
    let float = number.as_f64().expect("a float");
    let text = format!("{float:?}");
    match text.split_once('e') {
        None => text,
        Some((mantissa, exponent)) => {
            let exponent: i32 = exponent.parse().expect("an exponent");
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
    }
}

/// Single quotes, unless the text has one and no double quote. Escapes what is not printable in Latin-1; the rest of
/// Unicode is taken as printable.
fn repr_of_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut result = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => result.push_str("\\\\"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            '\0'..' ' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                result.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            _ if character == quote => result.extend(['\\', quote]),
            _ => result.push(character),
        }
    }
    result.push(quote);
    result
}

/// What `a == b` gives.
pub fn equal(a: &Value, b: &Value) -> bool {
    canonical(a) == canonical(b)
}

/// A text that two values share exactly when Python calls them equal: 1, 1.0 and True are one value, "1" is another;
/// the order of a dict's entries does not count.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => i64::from(*flag).to_string(),
        Value::Number(number) => canonical_number(number),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(entries) => {
            let mut entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key:?}:{}", canonical(value))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(","))
        }
    }
}

/// A float without a fraction is written as the integer it is, exactly; integers of JSON fit in 128 bits by far.
fn canonical_number(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        None => number.to_string(),
        Some(float) if float.fract() == 0.0 && float.abs() < 1e38 => (float as i128).to_string(),
        Some(float) => format!("{float:?}"),
    }
}
