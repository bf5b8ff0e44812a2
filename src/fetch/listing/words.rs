//! Words of listings that depend on the server's language: months, and the total above the entries.
//!
//! A server writes them in the encoding of its locale and does not say which. Text is read as UTF-8 if it is, and
//! otherwise compared in Latin-1, in the Cyrillic encodings, and last by shape: ASCII letters must agree, any other letter
//! stands for any byte that is not ASCII.

/// Abbreviations as `ls` writes them without the dot, and full names, in order of the months. A word for two different
/// months (Croatian and Polish share some) has the more widely used meaning.
const MONTHS: [&str; 12] = [
    "jan january januar januari janv janvier jän ene enero gen gennaio janeiro sty led ian jaan tammi oca ocak \
     янв января січ ιαν",
    "feb february februar februari febr fév févr février fev febrero febbraio fevereiro lut úno veebr helmi şub \
     фев февр февраля лют φεβ",
    "mar march märz mär mrz mars marts maart mrt marzo março març márc märts bře maalis мар март марта бер μαρ",
    "apr april avr avril abr aprile abril kwi dub ápr huhti nis апр апреля кві απρ",
    "may mai maj mei mayo maggio mag maio maig kvě máj touko май мая тра μαϊ μαΐ μάι",
    "jun june juni juin giu giugno junio junho juny cze čvn jún kesä haz iun juuni июн июня чер ιουν ιούν",
    "jul july juli juil juillet lug luglio julio julho juliol lip čvc júl heinä tem iul juuli июл июля лип ιουλ ιούλ",
    "aug august augusti augustus août aoû ago agosto ag sie srp avg elo ağu agu авг августа сер αυγ αύγ",
    "sep sept september sett settembre set septembre setembro wrz zář szept syys eyl сен сент сентября вер σεπ",
    "oct okt october oktober ott ottobre octobre octubre out outubro paź říj loka eki окт октября жов οκτ",
    "nov november novembre noviembre novembro lis marras kas noi ноя нояб ноября лис νοε νοέ",
    "dec december déc décembre dic diciembre dicembre dez dezember dezembro des dets gru pro joulu ara \
     дек декабря гру δεκ",
];

/// First words of the line that sums up a listing.
const TOTALS: &str = "total totale totaal totalt gesamt insgesamt razem łącznie celkem celkom összesen yhteensä toplam \
                      ukupno skupno viso kokku итого всего загалом общо σύνολο 合計 总用量 總計 总计 总数 합계";

/// Lower-case letters of KOI8-R from 0xC0 on; the capitals follow in the same order.
const KOI8: &str = "юабцдефгхийклмнопярстужвьызшэщчъ";

/// `Jan` is 1, and so are `janv.`, `ene`, `янв` and `Jän`.
pub(super) fn month(text: &[u8]) -> Option<i8> {
    let text = text.strip_suffix(b".").unwrap_or(text);
    // No month is longer; and no digits, so that sizes and names are not looked up.
    if !(2..=24).contains(&text.len()) || text.iter().any(|byte| byte.is_ascii_digit() || *byte < b'A') {
        return None;
    }
    let number = |index: usize| i8::try_from(index + 1).ok();
    for spelled in spellings(text) {
        if let Some(index) =
            MONTHS.iter().position(|words| words.split_whitespace().any(|word| word == spelled))
        {
            return number(index);
        }
    }
    if std::str::from_utf8(text).is_ok() {
        return None;
    }
    let mut alike = MONTHS
        .iter()
        .enumerate()
        .filter(|(_, words)| words.split_whitespace().any(|word| has_shape(text, word)));
    match (alike.next(), alike.next()) {
        (Some((index, _)), None) => number(index),
        _ => None,
    }
}

/// The same for a word in lower case that may have another ending (`listopada`, `marraskuuta`): the longest beginning decides.
pub(super) fn month_of_word(word: &str) -> Option<i8> {
    let begins = |words: &str| {
        let beginnings = words.split_whitespace().filter(|beginning| word.starts_with(beginning));
        beginnings.map(str::len).max()
    };
    let found = MONTHS.iter().enumerate().filter_map(|(index, words)| Some((begins(words)?, index)));
    let (_, index) = found.max()?;
    i8::try_from(index + 1).ok()
}

/// Whether this is the first word of a total.
pub(super) fn is_total(text: &[u8]) -> bool {
    let text = text.strip_suffix(b":").unwrap_or(text);
    spellings(text).iter().any(|spelled| TOTALS.split_whitespace().any(|word| word == spelled))
        || (std::str::from_utf8(text).is_err() && TOTALS.split_whitespace().any(|word| has_shape(text, word)))
}

/// Numbers with a sign of year, month or day behind each, in whatever encoding: `11月`, `2026年11月18日`, `3월`.
pub(super) fn marked_numbers(text: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, behind) = rest.split_at_checked(digits)?;
        let signs = behind.iter().take_while(|byte| !byte.is_ascii_digit()).count();
        let (sign, after) = behind.split_at_checked(signs)?;
        // Two bytes in the older encodings, three in UTF-8.
        if !(1..=4).contains(&digits) || !(2..=3).contains(&signs) || sign.first()?.is_ascii() {
            return None;
        }
        numbers.push(super::times::number(number)?);
        rest = after;
    }
    (1..=3).contains(&numbers.len()).then_some(numbers)
}

/// The text in lower case, in every encoding that it may have.
fn spellings(text: &[u8]) -> Vec<String> {
    if let Ok(text) = std::str::from_utf8(text) {
        return vec![text.to_lowercase()];
    }
    let encodings: [fn(u8) -> Option<char>; 5] = [latin1, cp1251, iso8859_5, cp866, koi8];
    let spelled = |decode: fn(u8) -> Option<char>| {
        let letters =
            text.iter().map(|byte| if byte.is_ascii() { Some(char::from(*byte)) } else { decode(*byte) });
        letters.collect::<Option<String>>().map(|text| text.to_lowercase())
    };
    encodings.into_iter().filter_map(spelled).collect()
}

#[allow(clippy::unnecessary_wraps, reason = "one of several decoders")]
fn latin1(byte: u8) -> Option<char> {
    Some(char::from(byte))
}

/// The letter so many places behind `А`.
fn cyrillic(place: u8) -> Option<char> {
    char::from_u32(0x410 + u32::from(place))
}

fn cp1251(byte: u8) -> Option<char> {
    match byte {
        0xb2 | 0xb3 => Some('і'),
        0xc0.. => cyrillic(byte - 0xc0),
        _ => None,
    }
}

fn iso8859_5(byte: u8) -> Option<char> {
    match byte {
        0xa6 | 0xf6 => Some('і'),
        0xb0..=0xef => cyrillic(byte - 0xb0),
        _ => None,
    }
}

fn cp866(byte: u8) -> Option<char> {
    match byte {
        0x80..=0xaf => cyrillic(byte - 0x80),
        0xe0..=0xef => cyrillic(byte - 0xe0 + 0x30),
        _ => None,
    }
}

fn koi8(byte: u8) -> Option<char> {
    match byte {
        0xa6 | 0xb6 => Some('і'),
        0xc0.. => KOI8.chars().nth(usize::from(byte & 0x1f)),
        _ => None,
    }
}

/// Whether the text can be this word in an unknown encoding of one byte for each letter.
fn has_shape(text: &[u8], word: &str) -> bool {
    let fits = |(byte, letter): (&u8, char)| {
        if letter.is_ascii() { char::from(byte.to_ascii_lowercase()) == letter } else { !byte.is_ascii() }
    };
    text.len() == word.chars().count()
        && word.chars().any(|letter| letter.is_ascii())
        && text.iter().zip(word.chars()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_read_in_many_languages_and_encodings() {
        for (text, expected) in [
            (&b"Nov"[..], 11),
            (b"NOV", 11),
            ("Mär".as_bytes(), 3),
            (b"M\xe4r", 3),
            (b"Mrz", 3),
            (b"Dez", 12),
            (b"janv.", 1),
            ("févr.".as_bytes(), 2),
            (b"f\xe9vr.", 2),
            ("août".as_bytes(), 8),
            (b"ao\xfbt", 8),
            (b"d\xe9c.", 12),
            ("мая".as_bytes(), 5),
            ("нояб.".as_bytes(), 11),
            // KOI8-R, CP1251, ISO 8859-5, CP866.
            (b"\xce\xcf\xd1", 11),
            (b"\xed\xee\xff", 11),
            (b"\xdd\xde\xef", 11),
            (b"\xad\xae\xef", 11),
            (b"\xd1\xce\xd7", 1),
            // Latin-2 and CP1250.
            (b"pa\xbc", 10),
            (b"pa\x9f", 10),
            (b"\xe8vn", 6),
            (b"j\xfan", 6),
            (b"J\xe4n", 1),
            (b"ene", 1),
            (b"ago", 8),
            (b"gen", 1),
            (b"out", 10),
            (b"maj", 5),
            (b"marras", 11),
            ("kesä".as_bytes(), 6),
            (b"szept.", 9),
        ] {
            assert_eq!(month(text), Some(expected), "{:?}", String::from_utf8_lossy(text));
        }
        for none in
            [&b""[..], b"x", b"Foo", b"12", b"3\xe6\x9c\x88", b"\xff\xff\xff", b"total", b"root", b"..."]
        {
            assert_eq!(month(none), None, "{none:?}");
        }
    }

    #[test]
    fn no_word_means_two_months() {
        for (index, words) in MONTHS.iter().enumerate() {
            for word in words.split_whitespace() {
                let holders =
                    MONTHS.iter().filter(|words| words.split_whitespace().any(|other| other == word));
                assert_eq!(holders.count(), 1, "{word}");
                assert_eq!(month(word.as_bytes()), i8::try_from(index + 1).ok(), "{word}");
            }
        }
    }

    #[test]
    fn numbers_with_signs_are_read_in_every_encoding() {
        for (text, expected) in [
            ("3月".as_bytes(), vec![3]),
            ("11月18日".as_bytes(), vec![11, 18]),
            ("2026年11月18日".as_bytes(), vec![2026, 11, 18]),
            ("3월".as_bytes(), vec![3]),
            // Shift_JIS, EUC-JP, GBK.
            (b"3\x8c\x8e", vec![3]),
            (b"2026\x94\x4e", vec![2026]),
            (b"3\xb7\xee", vec![3]),
            (b"3\xd4\xc2", vec![3]),
        ] {
            assert_eq!(marked_numbers(text), Some(expected));
        }
        for none in
            [&b""[..], b"3", b"3x", b"3\xc3", "3月4".as_bytes(), "月".as_bytes(), b"123456\xe6\x9c\x88"]
        {
            assert_eq!(marked_numbers(none), None, "{none:?}");
        }
    }

    #[test]
    fn totals_are_known_in_many_languages() {
        for text in ["total", "Gesamt", "insgesamt", "合計", "итого", "总用量", "합계", "yhteensä", "Totale:"]
        {
            assert!(is_total(text.as_bytes()), "{text}");
        }
        assert!(is_total(b"\xc9\xd4\xcf\xc7\xcf"), "KOI8-R");
        assert!(is_total(b"yhteens\xe4"), "Latin-1");
        for text in ["file", "-rw-r--r--", ""] {
            assert!(!is_total(text.as_bytes()), "{text}");
        }
    }
}
