use super::*;

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Mostly `TestSelectorParse` of apimachinery `pkg/labels/selector_test.go`.
#[test]
fn upstream_bad_selectors_are_refused() {
    let bad = "x=a||y=b; x==a==b; !x=a; x<a; x=1,; x,,; x in; x in (; x in ); x in (a; x in a); \
        x notin; =a; ==a; !=a; ,; , ; x a; (x; x>; x>a; x>-1; x in (a b); a=b=c; !; !!x; x===a; /x=a; \
        x/=a; a/b/c=d; -x; x-; x=-a; X_/y=a; é=a; x=é; x>99999999999999999999";
    for text in bad.split("; ") {
        assert!(Selector::parse(text).is_err(), "{text:?}");
    }
}

/// `TestRequirementConstructor`, `TestToString` and `TestSetSelectorParser`
/// upstream, as pairs of text and canonical text.
#[test]
fn texts_have_one_canonical_form() {
    let table = "x == a -> x=a; \rx\t=\na  -> x=a; z=1,a=2,m -> a=2,m,z=1; x in (c,a,b,a) -> x in (a,b,c); \
        this-is-a-dns.domain.com/key-with-dash -> this-is-a-dns.domain.com/key-with-dash; \
        x in (,a) -> x in (,a); x in (a,) -> x in (,a); x in (,) -> x in (); x in (,,) -> x in (); \
        x in () -> x in (); x notin ( ) -> x notin (); x notin (abc,def) -> x notin (abc,def); \
        notin in (in) -> notin in (in); in -> in; x=in -> x=in; !x -> !x; ! x -> !x; x,!y,x -> x,!y; \
        x>007 -> x>7; x!=a,z in (w),y -> x!=a,y,z in (w);  -> ; x= ,z=  -> x=,z=; x!= -> x!=; \
        x>1,z<5 -> x>1,z<5";
    for row in table.split("; ") {
        let (text, canonical) = row.split_once(" -> ").unwrap();
        assert_eq!(parse(text).to_string(), canonical, "{text:?}");
        assert_eq!(parse(canonical), parse(text), "{text:?}");
    }
}

/// `TestSelectorMatches` upstream.
#[test]
fn selectors_match_as_upstream() {
    // A selector | sets of labels that it matches, `-` is the empty set | that it does not.
    let table = "
 | x=y |
x=y,z=w | x=y,z=w | x=w,z=w
x=y | x=y | x=z
x=z | x=z | -
x!=y,z!=w | x=z,z=a | x=z,z=w
notin=in | notin=in |
x | x=z | y=z
!x | y=z | x=z
x>1 | x=2 | x=0 x=abc
x<1 | x=0 | x=2
x!=a | - |
x notin (a) | - |
x in (,a) | x= |
x in () | x= | x=y -
x notin () | x=y - | x=
";
    for row in table.lines().skip(1) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for (cell, is_match) in [(cells[1], true), (cells[2], false)] {
            for labels in cell.split(' ').filter(|labels| !labels.is_empty()) {
                let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
                let labels = Labels::from_pairs(pairs);
                assert_eq!(parse(cells[0]).matches(&labels), is_match, "{row}");
            }
        }
    }
}

#[test]
fn limits_are_exact() {
    let keys = |count: usize| {
        let keys: Vec<String> = (0..count).map(|index| format!("k{index}")).collect();
        keys.join(",")
    };
    assert!(Selector::parse(&keys(64)).is_ok());
    assert!(Selector::parse(&keys(65)).is_err());
    assert!(Selector::parse(&format!("k in ({})", keys(256))).is_ok());
    assert!(Selector::parse(&format!("k in ({})", keys(257))).is_err());
    assert!(Selector::parse(&" ".repeat(8192)).is_ok());
    assert!(Selector::parse(&" ".repeat(8193)).is_err());
    let long = "a".repeat(63);
    assert!(Selector::parse(&format!("{long}={long}")).is_ok());
    assert!(Selector::parse(&format!("{long}a=b")).is_err());
    assert!(Selector::parse(&format!("a={long}b")).is_err());
}

#[test]
fn reasons_are_one_short_line_whatever_was_sent() {
    let hostile = format!("a=\u{1b}[31m{}\r\nX: y", "z".repeat(500));
    let reason = Selector::parse(&hostile).unwrap_err().to_string();
    assert!(reason.chars().all(|c| !c.is_control()), "{reason:?}");
    assert!(reason.len() < 512, "{reason:?}");
}
