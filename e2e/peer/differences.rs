//! The expected differences between the answers, and their reasons. docs/rules.md,
//! "Differences on purpose", describes them for users.

/// Which server causes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A mistake or a gap of prometheus-adapter that is not copied.
    Theirs,
    /// A mistake as above that does not occur at each start: the row may match no line.
    TheirsAtRandom,
    /// Both are correct.
    Neither,
}

/// The lines that a pattern matches, and the reason. The first matching row counts.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) pattern: &'static str,
    pub(super) whose: Whose,
    pub(super) reason: &'static str,
}

macro_rules! rows {
    ($($whose:ident $pattern:literal $reason:literal;)*) => {
        &[$(Difference { pattern: $pattern, whose: Whose::$whose, reason: $reason }),*]
    };
}

/// A line is `FILE: METHOD PATH: PLACE: THEIRS | OURS`.
#[rustfmt::skip]
pub(super) const DIFFERENCES: &[Difference] = rows![
    // Files.
    Theirs r"^[\w-]+: start: ends: .* \| serves$"
        "a mistake in one rule ends the whole server there; here it costs that rule";
    Theirs r"^(bad-series-query|empty-rule): "
        "a selector that Prometheus refuses hides the metrics of all rules there";
    TheirsAtRandom r"^twins: GET .*/(pods?|po|pods\.|Pods)/.*twins"
        "of two labels for one resource each start takes another; here the series decides, then the name";
    Theirs r"^labels: GET .*(\bgrouped\b|/grouped)"
        "a template with .Group, from its own documentation, never finds the core group or one with a dot";
    Theirs r"storageclasses\.storage\.k8s\.io/"
        "cluster-scoped kinds but three are listed as namespaced, and not found either way";
    Theirs r"^names: GET .*: \.resources\[(pods|namespaces)/\]: \{.*\} \| absent$"
        "a metric with an empty name is listed there, and no client can request it";
    Theirs r"^templates: GET .*: \.resources\[[\w.]+/unknown_field\]: \{.*\} \| absent$"
        "a metric whose query no request can fill in is listed there";
    Neither r"^templates: GET .*\b(by_slice|ranged|trimmed|with_functions|keyed)\b"
        "lists, statements, functions, trim markers and fields of fields are refused here when the file is read";

    // Discovery.
    Neither r": \.server: absent \| " "`check` knows the server by it";
    Theirs r": a list of paths \| 200 "
        "a group without metrics is not served there, and its APIService is unavailable";
    Theirs r"GET /apis/?: \.groups\[(custom|external)\.metrics\.k8s\.io\]: absent \|"
        "the same in the list of groups";
    Neither r": a list of paths \| 404 " "what is not served is 404; the body there lists what is";
    Neither r"GET /apis/?: \.groups\[metrics\.k8s\.io\]" "resource metrics are not compared";
    Neither r"GET /apis/?: \.apiVersion: absent" "the list of groups has no version there";
    TheirsAtRandom r"GET /apis/(custom|external)\.metrics\.k8s\.io/?: \.(apiVersion|kind): absent \|"
        "requests side by side write one shared object there while it is encoded";
    Neither r"serverAddressByClientCIDRs: \[.*\] \| absent$" "its own address, which no client can use behind the aggregator";
    Theirs r"\.(preferredVersion|versions\[).*v1beta2" "v1beta2 is served there and not named";
    Theirs r": \.resources: in another order$" "a random order there, sorted here";

    // Values.
    Neither r#"\.describedObject\.apiVersion: "/v1" \| "v1"$"# "the core group has no slash: references of other objects have none";
    Theirs r"\.value is a milli apart: " "cut there, rounded to the nearest milli here";
    Theirs r#"(/odd_value(\?[^ ]*)?: \.items\[.*"value":"0"|"value":"-9223372036854775808m")\} \| absent$"#
        "NaN is 0, and it, infinities and what is too large are the smallest number there; left out here";
    Theirs r#"/(odd_value|both): status: 200 1 items \| 404 ".*: no fresh value that is a number"$"#
        "the same for one object";
    Neither r"/done-1\]: \{.*\} \| absent$" "a pod that has finished is no pod to scale by";
    Neither r"\.selector: \{.*\} \| null$" "the selector of the request, which the client knows";
    Neither r"\.metricLabels: null \| \{\}$" "no labels: a map that is empty, as the API's type wants";

    Neither r#"/a_scalar(\?[^ ]*)?: status: 500 ".*unable to fetch metrics" \| (200 0 items|404 )"#
        "a scalar belongs to no object: no value either way";

    // Selectors of series.
    Theirs r#"%21%3D\w+: status: 500 ".*!=.*is not a valid label selector operator" \| 200"# "`!=` is an error there";
    Theirs r#": status: \d+ .* \| 400 "series cannot be selected with > and <"# "what cannot be asked is 404 or 500 there";
    Theirs r#": status: \d+ .* \| 400 ".*is no label of series"# "a key that is no label breaks the query there: 500, or no matter where the rule has no matchers";
    Theirs r#"metricLabelSelector=.*: status: 500 .* \| 400 "unable to parse label selector"# "a malformed selector of series is 500 there";
    Neither r#"Selector=.*: \.message: ".*" \| "unable to parse label selector"# "another wording";

    // Parameters.
    Theirs r"[?&]watch=\w+: status: .* \| 405" "watching is promised there and never happens";
    Neither r"[?&]limit=x: status: 400 " "a list that is whole needs no limit";
    Neither r"[?&]fieldSelector=" "values have no fields, and a list that ignores the selector is too broad; the custom API ignores it there";

    // Paths.
    Theirs r#"/[^ ]*(%2[Ff]|%FF)[^ ]*: .* \| (400 )?"a part of the path is malformed or cannot be a name"# "no object has such a name";
    Theirs r#"/namespaces/(\*|DEFAULT|de%22f|)/[^ ]*: .* \| (404 )?"the server could not find the requested resource"$"# "no namespace has such a name";
    Theirs r#": .* \| (404 )?".* is no name of an object"$"# "no object has such a name, and it would change the query";
    Neither r#"/(Pods|pods\.)/\*/.*: .* \| (404 )?"the server could not find the requested resource"$"# "a resource has one spelling";
    Neither r"/po/\*/" "short names are understood";
    Theirs r#": status: 500 "Internal error occurred: unable to list matching resources" \| 404 "# "a kind that the cluster does not have, or not there, is not found";
    Theirs r#"/v1beta[12]/(\*/\*/|namespaces/[^/]*/[^/]*: |namespaces/[^/]*/(\*/\*/|metrics/: |metrics/[^: ]*/x: |pods//)).*status: (200|400|500) .* \| 404 "the server could not find the requested resource"$"#
        "a path with too much, too little or an empty part";

    // External names.
    Neither r#"/apis/external\.metrics\.k8s\.io/.*: status: 404 "the server could not find the metric .* for namespaces" \| (200|500)"# "names of external metrics are found in any case";

    // Words.
    Neither r": \.message says more: " "the reason is said";
    Neither r#"/external_matrix[^ ]*: \.(message: "encountered an unexpected query result type"|reason: absent) \|"#
        "an answer that is no vector is named there, with no reason in its place";
    Neither r#"\.message: ".*" \| ".*(no fresh value that is a number|the rule's query cannot be filled in)"$"# "the reason is said";
    Neither r#"\.message: ".*" \| "the server could not find the metric \\"# "names with odd characters are quoted";
    Neither r#"\.message: "the server could not find the metric .*" \| "the server could not find the requested resource"$"# "no such path";
    Neither r"\.details: (\{.*\} \| absent|absent \| \{\})$" "the message again, or nothing";
];
