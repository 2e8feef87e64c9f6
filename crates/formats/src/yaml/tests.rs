//! The tree and its problems, as tables; and that no text makes the reader panic.

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value as Json, json};

use super::*;

fn read(text: &str) -> Result<Json, Problems> {
    let mut reader = Reader::new(text);
    let json = parse(text, &mut reader).and_then(|node| reader.json(&node, "it"));
    reader.finish().map(|_| json.unwrap_or(Json::Null))
}

#[test]
fn meanings() {
    for (text, value) in [
        ("a: 1", json!({"a": 1})),
        (
            "[yes, no, on, off, y, True, FALSE, null, ~, '', 'true']",
            json!(["yes", "no", "on", "off", "y", true, false, null, null, "", "true"]),
        ),
        (
            "[1, -1, +1, 0x1F, 0o17, 017, 1_000, 1.50, 1., .5, 1e3, 1.0.0, 18446744073709551615]",
            json!([1, -1, 1, 31, 15, 17, "1_000", 1.5, 1.0, 0.5, 1000.0, "1.0.0", 18_446_744_073_709_551_615_u64]),
        ),
        ("[12:30, 2026-01-01, 0b1, e3, '.', +, -0]", json!(["12:30", "2026-01-01", "0b1", "e3", ".", "+", 0])),
        ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", json!({"a": "x\ny\n", "b": "x y"})),
        ("a:\r\n  - b\r\n", json!({"a": ["b"]})),
        ("---\na: b\n...\n", json!({"a": "b"})),
        ("", json!(null)),
        ("# nothing", json!(null)),
    ] {
        assert_eq!(read(text), Ok(value), "{text}");
    }
}

#[test]
fn what_is_refused() {
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let wide = (0..100).fold(String::new(), |text, i| format!("{text}{}a{i}:\n", " ".repeat(i)));
    for (text, place, message) in [
        ("a: &x 1\nb: 2", (1, 4), "anchors (&name) are not supported"),
        ("a: *x", (1, 4), "this is not YAML"),
        ("a: !!python/object:os.system x", (1, 4), "tags (!name) are not supported"),
        ("a: !x [1]", (1, 4), "tags (!name) are not supported"),
        ("a: 1\nb: 2\n'a': 3", (3, 1), "the key \"a\" is there twice; the first one is in line 1"),
        ("x:\n  a: 1\n  a: 1", (3, 3), "the key \"a\" is there twice; the first one is in line 2"),
        ("<<: {a: 1}", (1, 1), "merge keys (<<) are not supported"),
        ("? [a]\n: 1", (1, 3), "a key must be a text"),
        ("a: 1\n---\nb: 2", (2, 1), "a second document"),
        ("id: [a\nb: c", (2, 2), "this is not YAML"),
        ("a: 1\n\0b: 2", (2, 1), "a control character"),
        ("é: \u{1b}[2K", (1, 4), "a control character"),
        ("a: .inf", (1, 4), "it has the number .inf, which JSON cannot hold"),
        ("a: 99999999999999999999", (1, 4), "it has the number 99999999999999999999"),
        ("a: 1e999", (1, 4), "it has the number 1e999"),
        (&deep, (1, 65), "nested deeper than 64 levels"),
        (&wide, (65, 65), "nested deeper than 64 levels"),
    ] {
        let problems = read(text).expect_err(text);
        let first = &problems.0[0];
        assert_eq!((first.line, first.column), place, "{text}: {first}");
        assert!(first.message.starts_with(message), "{text}: {first}");
    }
}

#[test]
fn an_alias_bomb_is_small() {
    let mut text = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (name, last) in ('b'..='i').zip('a'..) {
        text += &format!("{name}: &{name} [{}]\n", vec![format!("*{last}"); 9].join(","));
    }
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.0.len(), 9 + 8 * 9, "nine anchors and all aliases, each told once");
}

#[test]
fn a_hundred_thousand_problems_are_told_shortly() {
    let text = format!("{{{}}}", "a: b, ".repeat(100_000));
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.0.len(), 101);
    assert_eq!(problems.0[100].message, "and 99899 more problems, which are not shown");
}

#[test]
fn problems_as_people_see_them() {
    let text = "id: a\nlong: ".to_owned() + &"x".repeat(100) + " [\t\u{202e}" + &"y".repeat(100) + "\n";
    let mut reader = Reader::new(&text);
    reader.problem(Place { line: 1, column: 5 }, "wrong");
    reader.problem(Place { line: 2, column: 108 }, "wrong");
    reader.problem(Place { line: 3, column: 1 }, "behind the end");
    reader.secret_problem(Place { line: 1, column: 1 }, "hidden");
    let shown = reader.finish().unwrap_err().to_string();
    let wanted = "line 1, column 1: hidden
line 1, column 5: wrong
  1 | id: a
    |     ^
line 2, column 108: wrong
  2 | …xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx [ \u{fffd}yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…
    |                                                              ^
line 3, column 1: behind the end";
    assert_eq!(shown, wanted);
}

/// Texts that mean something in YAML, put together at random.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "a",
            "b: ",
            "- ",
            "\n",
            "  ",
            "\t",
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "? ",
            "'",
            "\"",
            "|",
            ">-",
            "&x ",
            "*x",
            "!t ",
            "#",
            "---",
            "...",
            "%YAML 1.2\n",
            "<<: ",
            "\\",
            "\r",
            "null",
            "1.0",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
        ])
        .prop_map(ToOwned::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn json_value() -> impl Strategy<Value = Json> {
    let text = prop_oneof![any::<String>(), "[a-zA-Z0-9 :#\\-.+~yesnull]{0,12}", Just("k".repeat(2000))];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        prop::num::f64::NORMAL.prop_map(Json::from),
        text.clone().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::vec((text.clone().prop_filter("a merge key", |key| key != "<<"), inner), 0..6)
                .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in yaml_like()) {
        let _ = read(&text).map_err(|problems| problems.to_string());
    }

    #[test]
    fn what_is_emitted_is_read_again(value in json_value()) {
        let text = emit(&value);
        let again = read(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        assert_eq!(again, value, "{text}");
        assert_eq!(emit(&again), text);
    }
}

#[test]
fn emitted_text_is_for_people() {
    let value = json!({
        "id": "my-toolset", "version": "1.0.0", "enabled": false, "answer": "no", "none": null, "empty": {}, "list": [],
        "tools": [{"id": "a", "args": ["-y", "x y", "${A}", 1.5]}, [["deep"], []], "a: b # c", "line\nbreak\u{85}\u{feff}"],
    });
    let text = "id: my-toolset
version: \"1.0.0\"
enabled: false
answer: \"no\"
none: null
empty: {}
list: []
tools:
  - id: a
    args:
      - \"-y\"
      - x y
      - \"${A}\"
      - 1.5
  - - - deep
    - []
  - \"a: b # c\"
  - \"line\\nbreak\\u0085\\uFEFF\"
";
    assert_eq!(emit(&value), text);
}
