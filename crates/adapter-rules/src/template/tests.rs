//! The output of Go's text/template for the same templates and fields.

mod recorded;

use gotmpl::{Value, tmap};

use super::Template;

fn fields(matchers: &str, values: &[(&str, &str)], series: &str, groups: &[&str]) -> Value {
    let text = |(name, value): &(&str, &str)| ((*name).into(), Value::String((*value).into()));
    tmap! {
        "Series" => series,
        "LabelMatchers" => matchers,
        "LabelValuesByName" => Value::Map(std::sync::Arc::new(values.iter().map(text).collect())),
        "GroupBy" => groups.join(","),
        "GroupBySlice" => groups.to_vec(),
    }
}

/// The fields of a request for the pods `a` and `b`.
fn request() -> Value {
    let values = [("namespace", "default"), ("pod", "a|b")];
    let matchers = r#"namespace="default",pod=~"a|b""#;
    fields(matchers, &values, "http_requests_total", &["pod", "node"])
}

fn rendered(text: &str) -> String {
    match Template::parse(text, &request()) {
        Ok(template) => template
            .render(&request())
            .unwrap_or_else(|error| format!("render: {error}")),
        Err(error) => error.to_string(),
    }
}

/// A template, and its output.
const RENDERED: &str = r#"
up => up
sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>) => sum(rate(http_requests_total{namespace="default",pod=~"a|b"}[2m])) by (pod,node)
a <<- .GroupBy ->> b => apod,nodeb
a <</* why */>> b => a  b
a <<- /* why */ ->> b => ab
<<.LabelValuesByName>> => map[namespace:default pod:a|b]
<<.GroupBySlice>> => [pod node]
<<index .LabelValuesByName "pod">>[<<index .LabelValuesByName "nope">>] => a|b[]
<<index .GroupBySlice 1>> => node
<<range $i, $g := .GroupBySlice>><<if $i>>,<<end>><<$g>><<end>> => pod,node
<< range $k, $v :=.LabelValuesByName >><< if ne $k "pod" >>,<< $k >>="<< $v >>"<< end >><<end >> => ,namespace="default"
<<range $g := .GroupBySlice>><<$.Series>>.<<$g>> <<end>>. => http_requests_total.pod http_requests_total.node .
<<range .GroupBySlice>><<.>>;<<else>>none<<end>> => pod;node;
<<if eq .GroupBy "node" "pod,node">>yes<<else>>no<<end>> => yes
<<if ne .GroupBy "pod,node">>1<<else if .LabelValuesByName.nope>>2<<else>>3<<end>> => 3
<<with .LabelValuesByName.nope>>1<<else with .LabelValuesByName.pod>><<.>><<end>> => a|b
<<$x := "a">><<if true>><<$x = "b">><<end>><<$x>> => b
<<printf "%s-%d%%" .Series (len .GroupBySlice)>> => http_requests_total-2%
<<.GroupBy | printf "%s-%v" .Series | len>> => 28
<<print .GroupBy 1 2 .GroupBy>> => pod,node1 2pod,node
<<and .GroupBy .Series>> <<or .LabelValuesByName.nope .GroupBy>> <<not .GroupBy>> => http_requests_total pod,node false
<<slice .GroupBy 1 3>> <<slice .GroupBySlice 0 1>> => od [pod]
<<`raw "text"`>> <<"a\"b\\c">> => raw "text" a"b\c
{{.Series}} a > b >> c < => {{.Series}} a > b >> c <
"#;

#[test]
fn renders_as_go_does() {
    for row in RENDERED.trim().lines() {
        let (template, expected) = row.split_once(" => ").unwrap();
        assert_eq!(rendered(template), expected, "{template}");
    }
}

/// Texts that Go refuses, texts that gotmpl renders differently, and unsupported actions:
/// the column of the fault, and the beginning of its message.
const REFUSED: &str = r#"
<<.Series => 1: << without >>: close the action
a<<end>>b => 2: end or else without if, range or with
<<if .Series>>x => 1: if has no end: write <<end>>
a<<else | print>>b => 1: it has an extra end or else
<<if true>>a<<else>>b<<else>>c<<end>> => 22: end or else without if, range or with
<<with .Series>><<else if .Series>><<end>> => 17: else if without if, or else with without with
<<range .GroupBySlice>><<break>><<end>> => 26: it has a statement that is not supported
<<$x := 1>><<range $x := .GroupBySlice>><<else>><<$x>><<end>> => 14: $x is declared already: write another name
<<if true>><<$x := 1>><<end>><<$x>> => 32: $x is not declared
<<$x := 1>><<$x = "a">> => 14: $x gets a value of another type
<<.Series .GroupBy>> => 3: this is not a function and takes no arguments
<<>> => 1: this action is not supported
<<..Series>> => 1: this action is not supported
<<010>> => 1: this action is not supported
<<eq .Series"a">> => 1: this action is not supported
<<- /* why */>> => 1: this action is not supported
<<(.Series>> => 13: expected RightParen, got RightDelim
<<.>> => 3: no value: write .GroupBy, .GroupBySlice, .LabelMatchers, .LabelValuesByName, .Series
<<if false>><<else>><<.Serie>><<end>> => 23: .Serie is not known: write .GroupBy,
<<.LabelValuesByName.pod.x>> => 3: .x of a value without fields
<<range .GroupBySlice>><<.Series>><<end>> => 26: .Series of a value without fields
<<range .Series>>x<<end>> => 3: range over a value that is not a list or a map
<<or .Series (index .Serie 1)>> => 21: .Serie is not known
<<index .GroupBySlice "pod">> => 3: index does not accept these values
<<eq .LabelValuesByName.pod "a">> => 3: eq does not accept these values
<<lt false true>> => 3: lt does not accept these values
<<printf "%s">> => 3: printf does not accept these values
<<printf "%5s" .Series>> => 3: printf does not accept these values
<<.GroupBy | printf "%s-%v" .GroupBySlice>> => 14: printf does not accept these values
<<len nil>> => 7: a value is missing
<<define "m">>a<<end>> => 16: end or else without 
<<html .Series>> => 3: "html" is not a supported function: use one of and, or,
"#;

#[test]
fn templates_that_may_render_differently_are_refused_with_the_place() {
    let refused = |template: &str, expected: &str| {
        let told = rendered(template);
        assert!(told.starts_with(expected), "{template}: {told}");
    };
    for row in REFUSED.trim().lines() {
        let (template, fault) = row.split_once(" => ").unwrap();
        let (column, message) = fault.split_once(": ").unwrap();
        let expected = format!("at line 1, column {column} of it: {message}");
        refused(template, &expected);
    }
    refused("a\n <<.Series", "at line 2, column 2 of it: <<");
    let unusual = "at line 1, column 2 of it: an unusual space";
    refused("a\u{a0}<<- .Series>>", unusual);
}

#[test]
fn faults_that_depend_on_the_request_are_reported_when_rendering() {
    for (template, expected) in [
        (
            "a<<.LabelValuesByName.nope>>",
            "render: a label that the request does not have would be printed",
        ),
        ("<<index .GroupBySlice 7>>", "render: index out of range: 7"),
    ] {
        assert_eq!(rendered(template), expected, "{template}");
    }
    assert!(rendered("<<slice .Series 70>>").starts_with("render: "));
    assert!(rendered("<<slice \"é\" 1>>").starts_with("render: "));
}

#[test]
fn no_template_is_too_deep_too_long_or_too_slow() {
    let ifs = "<<if true>>".repeat(3_000);
    assert!(rendered(&ifs).contains("too deeply"));
    let groups = format!("<<{}1{}>>", "(".repeat(5_000), ")".repeat(5_000));
    assert!(rendered(&groups).contains("depth exceeded"));
    let elses = format!("<<if false>>{}<<end>>", "<<else if false>>".repeat(3_000));
    assert!(rendered(&elses).contains("too deeply"));
    let wide = "<<range $.GroupBySlice>>".repeat(30) + "x" + &"<<end>>".repeat(30);
    assert!(rendered(&wide).contains("budget"));
    let long = format!(
        "<<$x := \"{}\">>{}",
        "x".repeat(30_000),
        "<<$x>>".repeat(40)
    );
    assert!(rendered(&long).contains("too long"));
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
