//! The output of Go's text/template for the same templates and fields.

mod recorded;

use super::{Fields, Template, Value};

fn fields() -> Fields {
    let values = [("namespace", "default"), ("pod", "a|b")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Fields::from([
        ("Series", Value::Text("http_requests_total".into())),
        (
            "LabelMatchers",
            Value::Text(r#"namespace="default",pod=~"a|b""#.into()),
        ),
        (
            "LabelValuesByName",
            Value::Map(values.into_iter().collect()),
        ),
        ("GroupBy", Value::Text("pod".into())),
        (
            "GroupBySlice",
            Value::List(vec!["pod".into(), "container".into()]),
        ),
    ])
}

fn rendered(text: &str) -> String {
    match Template::parse(text) {
        Ok(template) => template
            .render(&fields())
            .unwrap_or_else(|error| format!("render: {error}")),
        Err(error) => format!("parse: {error}"),
    }
}

#[test]
fn renders_as_go_does() {
    for (template, expected) in [
        ("", ""),
        ("up", "up"),
        (
            "sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)",
            r#"sum(rate(http_requests_total{namespace="default",pod=~"a|b"}[2m])) by (pod)"#,
        ),
        ("<< .Series >>", "http_requests_total"),
        ("a <<- .GroupBy ->> b", "apodb"),
        ("a <</* why */>> b", "a  b"),
        ("a <<- /* why */ ->> b", "ab"),
        ("<<.LabelValuesByName>>", "map[namespace:default pod:a|b]"),
        ("<<.GroupBySlice>>", "[pod container]"),
        ("<<.LabelValuesByName.pod>>", "a|b"),
        ("<<.LabelValuesByName.nope>>", "<no value>"),
        (r#"<<index .LabelValuesByName "pod">>"#, "a|b"),
        (r#"[<<index .LabelValuesByName "nope">>]"#, "[]"),
        ("<<index .GroupBySlice 1>>", "container"),
        ("<<range .GroupBySlice>><<.>>;<<end>>", "pod;container;"),
        (
            "<<range $i, $g := .GroupBySlice>><<if $i>>,<<end>><<$g>><<end>>",
            "pod,container",
        ),
        (
            "<<range $k, $v := .LabelValuesByName>><<$k>>=<<$v>> <<end>>",
            "namespace=default pod=a|b ",
        ),
        (
            "<<range $g := .GroupBySlice>><<$.GroupBy>>.<<$g>> <<end>>",
            "pod.pod pod.container ",
        ),
        ("<<range .GroupBySlice>><<break>><<else>>none<<end>>", ""),
        (
            r#"<<range .GroupBySlice>><<if eq . "pod">><<continue>><<end>><<.>><<end>>"#,
            "container",
        ),
        (
            r#"<<if eq .GroupBy "node" "pod">>yes<<else>>no<<end>>"#,
            "yes",
        ),
        (
            r#"<<if ne .GroupBy "pod">>1<<else if .LabelValuesByName.nope>>2<<else>>3<<end>>"#,
            "3",
        ),
        (
            "<<with .LabelValuesByName.pod>><<.>><<else>>none<<end>>",
            "a|b",
        ),
        (
            "<<with $x := .LabelValuesByName.nope>><<$x>><<else>>none<<end>>",
            "none",
        ),
        ("<<$x := .GroupBy>><<$x>>-<<$x>>", "pod-pod"),
        (r#"<<$x := "a">><<if true>><<$x = "b">><<end>><<$x>>"#, "b"),
        (
            r#"<<printf "%s{%q}" .Series .GroupBy>>"#,
            r#"http_requests_total{"pod"}"#,
        ),
        (
            r#"<<.GroupBy | printf "%s-%s" .Series>>"#,
            "http_requests_total-pod",
        ),
        (r#"<<printf "%d%%" (len .GroupBySlice)>>"#, "2%"),
        ("<<print .GroupBy 1 2 .GroupBy>>", "pod1 2pod"),
        (r#"<<index .LabelValuesByName "pod" | urlquery>>"#, "a%7Cb"),
        (
            "<<and .GroupBy .Series>> <<or .LabelValuesByName.nope .GroupBy>> <<not .GroupBy>>",
            "http_requests_total pod false",
        ),
        (
            "<<slice .GroupBy 1>> <<slice .GroupBySlice 0 1>>",
            "od [pod]",
        ),
        (
            r#"<<define "m">>{<<.>>}<<end>><<template "m" .GroupBy>>"#,
            "{pod}",
        ),
        (
            r#"<<block "m" .Series>>{<<.>>}<<end>>"#,
            "{http_requests_total}",
        ),
        ("<<`raw \"text\"`>>", r#"raw "text""#),
        (r#"<<"a\"b\\c">>"#, r#"a"b\c"#),
        ("{{.Series}}", "{{.Series}}"),
        ("a > b >> c", "a > b >> c"),
    ] {
        assert_eq!(rendered(template), expected, "{template}");
    }
}

#[test]
fn what_go_refuses_is_refused_with_its_place() {
    for (template, expected) in [
        (
            "a <<.Series",
            "parse: at character 12: << without >>: close the action",
        ),
        (
            "<<if .Series>>x",
            "parse: at character 1: if has no end: write <<end>>",
        ),
        (
            "<<range .GroupBySlice>>x",
            "parse: at character 1: range has no end: write <<end>>",
        ),
        (
            "x<<end>>",
            "parse: at character 7: end or else without if, range, with or define",
        ),
        (
            "<<else>>",
            "parse: at character 7: end or else without if, range, with or define",
        ),
        (
            "<<if true>>a<<else>>b<<else>>c<<end>>",
            "parse: at character 1: if has no end: write <<end>>",
        ),
        ("<<break>>", "parse: at character 1: break outside of range"),
        ("<<$x>>", "parse: at character 3: $x is not declared"),
        ("<<>>", "parse: at character 3: a value is missing"),
        (
            "<<.Series .GroupBy>>",
            "parse: at character 3: this is no function and takes no arguments",
        ),
        (
            r#"<<"abc>>"#,
            "parse: at character 3: the string has no end: write \" after it",
        ),
        (
            "<<#>>",
            "parse: at character 3: '#' has no meaning in an action",
        ),
        (
            "<<1.5>>",
            "parse: at character 3: \"1.5\" is no whole number",
        ),
        (
            "<<010>>",
            "parse: at character 3: \"010\" is no whole number",
        ),
        ("<<..Series>>", "parse: at character 4: a . too many"),
        (
            "<<range$i := .GroupBySlice>><<end>>",
            "parse: at character 8: a space after the name is missing",
        ),
        (
            "<<.>>",
            "render: at character 1: print of the top of the template: write a field",
        ),
        (
            "<<print .LabelValuesByName.nope>>",
            "render: at character 3: print of a missing value",
        ),
        (
            "<<lt false true>>",
            "render: at character 3: true or false compared with true or false",
        ),
        (
            "<<.Nope>>",
            "render: at character 3: .Nope is not known: write .GroupBy, .GroupBySlice, \
            .LabelMatchers, .LabelValuesByName, .Series",
        ),
        ("<<.Series.x>>", "render: at character 3: .x of text"),
        (
            "<<range .Series>>x<<end>>",
            "render: at character 1: range over text",
        ),
        (
            "<<index .GroupBySlice 7>>",
            "render: at character 3: index out of range: 7",
        ),
        (
            r#"<<template "nope">>"#,
            "render: at character 1: template \"nope\" is not defined",
        ),
        (
            r#"<<define "x">><<template "x">><<end>><<template "x">>"#,
            "render: at character 15: templates call each other too deeply",
        ),
    ] {
        assert_eq!(rendered(template), expected, "{template}");
    }
    let unknown = rendered("<<html .Series>>");
    assert!(
        unknown.starts_with("parse: at character 3: \"html\" is no function here"),
        "{unknown}"
    );
}

/// For any request.
#[test]
fn a_name_that_nothing_has_is_found_before_it_is_asked_for() {
    let checked = |text: &str| Template::parse(text).unwrap().check(&fields());
    for (template, place) in [
        ("<<.Serie>>", 3),
        ("<<if false>><<else>><<.Serie>><<end>>", 23),
        ("<<range .GroupBySlice>><<break>><<$.Serie>><<end>>", 35),
        ("<<range .GroupBySlice>><<.Serie>><<end>>", 26),
        ("<<with .Series>><<else>><<.Serie>><<end>>", 27),
        ("<<or .Series (index .Serie 1)>>", 21),
        ("<<.LabelValuesByName.pod.x>>", 3),
        ("<<range .Series>>x<<end>>", 1),
        ("<<if false>><<template \"nope\">><<end>>", 13),
        ("<<define \"f\">><<template \"nope\">><<end>>", 15),
    ] {
        let error = checked(template).expect_err(template);
        assert_eq!(error.at, place, "{template}: {error}");
    }
    for template in [
        "<<index .GroupBySlice 7>><<slice .Series 70>>",
        "<<with .LabelValuesByName.nope>><<slice . 1>><<end>>",
        "<<range $k, $v := .LabelValuesByName>><<$k>><<.>><<end>>",
        "<<$s := .LabelValuesByName>><<$s.pod>><<with $s>><<.pod>><<$.Series>><<end>>",
        "<<define \"f\">><<if .>><<template \"f\" (slice . 1)>><<end>><<end>><<template \"f\" .Series>>",
    ] {
        assert_eq!(checked(template), Ok(()), "{template}");
    }
}

#[test]
fn no_template_is_too_deep_too_long_or_too_slow() {
    let deep = "<<if true>>".repeat(10_000);
    assert!(rendered(&deep).contains("too deeply") || rendered(&deep).contains("longer"));
    let groups = format!("<<{}1{}>>", "(".repeat(5_000), ")".repeat(5_000));
    assert!(rendered(&groups).contains("too deeply"));
    let elses = format!("<<if false>>{}<<end>>", "<<else if false>>".repeat(3_000));
    assert!(rendered(&elses).contains("too deeply"));
    let wide = "<<range $.GroupBySlice>>".repeat(30) + "x" + &"<<end>>".repeat(30);
    assert!(rendered(&wide).contains("too long"));
    let doubled = format!(
        "<<$x := \"ten bytes.\">>{}",
        "<<$x = print $x $x>>".repeat(2_000)
    );
    assert!(rendered(&doubled).contains("too long"));
    let piped = format!("<<\"a\"{}>>", " | printf \"%s%s\" \"a\"".repeat(2_000));
    assert!(!rendered(&piped).contains("too long"), "it grows by one");
    let calls = "<<define \"f\">><<template \"f\" (print . . .)>><<end>><<template \"f\" .Series>>";
    assert!(rendered(calls).contains("too long"));
    let kept = format!(
        "<<$x := \"{}\">>{}",
        "x".repeat(30_000),
        "<<$y := $x>>".repeat(2_000)
    );
    assert!(rendered(&kept).contains("too long"));
    let looks = "<<range $.GroupBySlice>>".repeat(30)
        + "<<if $.LabelValuesByName>><<end>>"
        + &"<<end>>".repeat(30);
    assert!(rendered(&looks).contains("too long"));
    let many = format!(
        "<<$x := \"{}\">><<print{}>>",
        "x".repeat(20_000),
        " $x".repeat(10_000)
    );
    assert!(rendered(&many).contains("too long"));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[<>.$a-z\"`|:=,() \\-/*éLSG]{0,60}") {
        let _ = rendered(&text);
    }

    #[test]
    fn no_action_panics(words in proptest::collection::vec(
        proptest::sample::select(vec!["if", "end", "range", "else", "with", ".", "$x", ":=", "(", ")",
            "|", ".Series", "index", ">><<", "\"a\"", "1", "define", "template", "block", "break"]), 0..20)) {
        let _ = rendered(&format!("<<{}>>", words.join(" ")));
    }
}
