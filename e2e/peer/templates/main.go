// Templates at random, and what Go's text/template makes of them with the fields
// that prometheus-adapter gives to a rule's query: a line of JSON for each.
//
// What the unit test reads was recorded by Go 1.26, in this folder, with
//
//	go run . > ../../../crates/adapter-rules/src/template/tests/recorded.jsonl
//
// More of them, read by the same test:
//
//	go run . -count 10000 -seed 2 > /tmp/recorded.jsonl
//	GO_TEMPLATES=/tmp/recorded.jsonl cargo test --locked -p adapter-rules -- template::tests::recorded
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"math/rand"
	"os"
	"strings"
	"text/template"
)

// fields has the names and types of queryTemplateArgs in prometheus-adapter's
// pkg/naming/metrics_query.go.
type fields struct {
	Series            string
	LabelMatchers     string
	LabelValuesByName map[string]string
	GroupBy           string
	GroupBySlice      []string
}

// sets are those of crates/adapter-rules/src/template/tests/recorded.rs.
var sets = []fields{
	{
		Series:            "http_requests_total",
		LabelMatchers:     `namespace="default",pod=~"a|b"`,
		LabelValuesByName: map[string]string{"namespace": "default", "pod": "a|b", "empty": "", "é": "ü"},
		GroupBy:           "pod,container",
		GroupBySlice:      []string{"pod", "container"},
	},
	{LabelValuesByName: map[string]string{}, GroupBySlice: []string{}},
}

// real are templates as rules have them.
var real = []string{
	"sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
	`sum(rate(<<.Series>>{<<.LabelMatchers>>,container!="POD"}[2m])) by (<<.GroupBy>>)`,
	`max(<<.Series>>{namespace="<<index .LabelValuesByName "namespace">>"}) by (<<.GroupBy>>)`,
	`<<.Series>>{<< range $key, $value :=.LabelValuesByName >><< if ne $key "namespace" >>,<< $key >>="<< $value >>"<< end >><<end >>}`,
	`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<range $i, $g := .GroupBySlice>><<if $i>>,<<end>><<$g>><<end>>)`,
	`<<printf "%s{%s}" .Series .LabelMatchers>>`,
	`<<with index .LabelValuesByName "pod">>x{pod="<<.>>"}<<else>>x<<end>>`,
	`<<- if eq .GroupBy "pod" ->> a <<- else if .LabelValuesByName.pod ->> b <<- else ->> c <<- end ->>`,
	`<<$s := slice .Series 0 4>><<$s>>_total`,
	"sum(<<.Series>>{<<. LabelMatchers>>})",
	`sum(<<.Series>>{type="<<.LabelMatchers.type>>"})`,
}

// pieces are put into templates where they do not belong.
var pieces = strings.Split("<<¦>>¦<<- ¦ ->>¦->>¦<<end>>¦<<else>>¦<<if .Series>>¦<<range .GroupBySlice>>¦<<with .GroupBy>>¦"+
	"<<define \"m\">>¦<<template \"m\">>¦<<else if .GroupBy>>¦<<else with .GroupBy>>¦(¦)¦\"¦`¦.¦$¦$x¦:=¦=¦,¦ ¦\n¦1¦0¦-¦/*¦*/¦"+
	"end¦else¦if¦range¦nil¦\\¦<<break>>¦<<continue>>¦é¦<</*¦*/>>¦:¦'¦%¦_¦\u00a0¦\x00¦;¦[¦.Series¦<<.Series>>¦#¦|", "¦")

const declared = "<<$x := .GroupBy>><<$k := 1>><<$v := .Series>>"

type generator struct{ *rand.Rand }

func (g generator) of(from ...string) string { return from[g.Intn(len(from))] }

func (g generator) operand(depth int) string {
	switch n := g.Intn(20); {
	case n < 9:
		return g.of(".Series", ".LabelMatchers", ".LabelValuesByName", ".GroupBy", ".GroupBySlice", ".LabelValuesByName.pod",
			".LabelValuesByName.nope", "$.Series", "$.GroupBySlice", "$.LabelValuesByName.namespace")
	case n < 11:
		return g.of(".", "$", "$x", "$k", "$v")
	case n < 15:
		return g.of(`"pod"`, `"a"`, `""`, `"namespace"`, "`raw`", `"é\n\"\\"`, `"%s"`, `"\u00e9"`)
	case n < 18:
		return g.of("0", "1", "2", "7", "-1", "true", "false")
	case n < 19 && depth > 0:
		return "(" + g.pipeline(depth-1) + ")"
	}
	return g.of("nil", "1.5", "0x1F", "'a'", "010", "1_000", "+1", "18446744073709551615", ".Nope", "$nope", "print",
		".Series.x", "1i", `"\377"`, "-0", "(.LabelValuesByName).pod")
}

func (g generator) operands(depth, count int) string {
	all := ""
	for range count {
		all += " " + g.operand(depth)
	}
	return all
}

// command is one of a pipeline; piped is 1 where a value is piped into it.
func (g generator) command(depth, piped int) string {
	switch n := g.Intn(24); {
	case n < 6 && piped == 0:
		return g.operand(depth)
	case n < 10:
		verbs, count := "", g.Intn(4)
		for range count {
			verbs += g.of("", "-", "x=") + g.of("%s", "%s", "%q", "%d", "%v", "%v", "%%", "%x", "%5d", "%.2s", "%+v", "%#v", "%T", "%[1]s", "%*d", "%!", "%")
		}
		return "printf " + g.of(`"`+verbs+`"`, "`"+verbs+"`") + g.operands(depth, max(0, count-piped+g.Intn(5)/4))
	case n < 13:
		return "index " + g.of(".LabelValuesByName", ".GroupBySlice", ".Series", ".") + g.operands(depth, 1-piped+g.Intn(4)/3)
	case n < 15:
		return "slice " + g.of(".Series", ".GroupBySlice", ".GroupBy", `"éa"`) + g.operands(depth, g.Intn(4))
	case n < 18:
		return g.of("eq", "ne", "lt", "le", "gt", "ge") + g.operands(depth, max(1, 2-piped+g.Intn(5)/4))
	case n < 19:
		return g.of("and", "or") + g.operands(depth, 1+g.Intn(3))
	case n < 20:
		return g.of("not", "len") + g.operands(depth, 1-piped)
	case n < 23:
		return g.of("print", "println", "urlquery") + g.operands(depth, g.Intn(4))
	}
	return g.of("html", "js", "call", "nope", "len", "not", "range", "block") + g.operands(depth, g.Intn(3))
}

func (g generator) pipeline(depth int) string {
	all := g.command(depth, 0)
	for g.Intn(5) == 0 {
		all += g.of(" | ", "|", " |\n") + g.command(depth, 1)
	}
	return all
}

func (g generator) action(inside string) string {
	return g.of("<<", "<<", "<<", "<< ", "<<- ", "<<-\n") + inside + g.of(">>", ">>", ">>", " >>", " ->>", "\t->>")
}

func (g generator) text() string {
	return g.of("", "a", " ", "sum(rate(", "[2m])) by (", " b ", "\n\t", "{", "}", "é", ">>", "<", "-", "\u00a0", "\r\n x ", "\v", "{{.Series}}")
}

func (g generator) nodes(depth int, inRange bool) string {
	all := ""
	for range 1 + g.Intn(3) {
		all += g.text() + g.node(depth, inRange) + g.text()
	}
	return all
}

func (g generator) node(depth int, inRange bool) string {
	body := func(inRange bool) string { return g.nodes(depth-1, inRange) }
	branch := func(keyword, variables string) string {
		all := g.action(keyword+" "+variables+g.pipeline(1)) + body(inRange)
		switch g.Intn(4) {
		case 0:
			all += g.action("else") + body(inRange)
		case 1:
			all += g.action("else "+keyword+" "+g.pipeline(1)) + body(inRange)
		}
		return all + g.action("end")
	}
	switch n := g.Intn(14); {
	case n < 4 || depth <= 0:
		return g.action(g.pipeline(1 + depth/2))
	case n < 6:
		return branch("if", "")
	case n < 8:
		variables := g.of("", "$v := ", "$k, $v := ", "$k,$v:=", "$v = ")
		over := g.of(".GroupBySlice", "$.GroupBySlice", ".LabelValuesByName", "$.LabelValuesByName", "3", ".Series", g.pipeline(1))
		otherwise := g.of("", "", g.action("else")+body(false))
		return g.action("range "+variables+over) + body(true) + otherwise + g.action("end")
	case n < 9:
		return branch("with", g.of("", "$x := "))
	case n < 10:
		return g.action("$x := "+g.pipeline(1)) + g.action("$x") + g.action("$x = "+g.pipeline(1)) + g.action(g.pipeline(1))
	case n < 11:
		return g.of("<</* c */>>", "<<- /* c */>>", "<</* c */ ->>", "<<- /* c */ ->>", "<< /* c */>>", "<</* >> */>>")
	case n < 12:
		call := "template " + g.of(`"m"`, `"n"`, `"nope"`) + g.of("", " .", " .GroupBy")
		return g.action("define "+g.of(`"m"`, `"n"`, "`m`")) + body(false) + g.action("end") + g.action(call)
	case n < 13:
		return g.action("block "+g.of(`"m"`, `"b"`)+" "+g.pipeline(1)) + body(false) + g.action("end")
	case inRange || g.Intn(8) == 0:
		return g.action(g.of("break", "continue"))
	}
	return g.action(g.pipeline(1))
}

// mutate changes a template in a few places.
func (g generator) mutate(text string) string {
	for range 1 + g.Intn(3) {
		runes := []rune(text)
		at := g.Intn(len(runes) + 1)
		to := min(len(runes), at+g.Intn(4))
		switch g.Intn(3) {
		case 0:
			text = string(runes[:at]) + string(runes[to:])
		case 1:
			text = string(runes[:at]) + g.of(pieces...) + string(runes[to:])
		default:
			text = string(runes[:at]) + g.of(pieces...) + string(runes[at:])
		}
	}
	return text
}

func (g generator) nested() string {
	n := 1 + g.Intn(60)
	closed := n + g.Intn(2) - g.Intn(2)
	return g.of(
		strings.Repeat("<<if .Series>>", n)+"x"+strings.Repeat("<<end>>", closed),
		"<<"+strings.Repeat("(", n)+".Series"+strings.Repeat(")", closed)+">>",
		"<<if false>>"+strings.Repeat("<<else if false>>", n)+"x<<end>>",
		"<<.Series"+strings.Repeat(" | print", n)+">>")
}

func (g generator) template(n int) string {
	switch n % 10 {
	case 0, 1, 2:
		return g.of("", declared) + g.nodes(g.Intn(3), false)
	case 3, 4:
		return g.action(g.pipeline(1))
	case 5, 6:
		return g.mutate(g.of(real...))
	case 7, 8:
		return g.mutate(g.of("", declared) + g.nodes(g.Intn(3), false))
	}
	all := ""
	for range g.Intn(12) {
		all += g.of(pieces...)
	}
	return g.of(all, g.nested())
}

// short ends a rendering that has no end.
type short struct{ strings.Builder }

func (s *short) Write(part []byte) (int, error) {
	if s.Len()+len(part) > 1<<16 {
		return 0, errors.New("too long")
	}
	return s.Builder.Write(part)
}

type recorded struct {
	Template string `json:"template"`
	// With each set of fields; none where Go refuses to read the template.
	Rendered []*string `json:"rendered,omitempty"`
}

func record(text string) recorded {
	parsed, err := template.New("metrics-query").Delims("<<", ">>").Parse(text)
	if err != nil {
		return recorded{Template: text}
	}
	all := recorded{text, make([]*string, len(sets))}
	for i, set := range sets {
		var out short
		if parsed.Execute(&out, set) == nil {
			rendered := out.String()
			all.Rendered[i] = &rendered
		}
	}
	return all
}

func main() {
	count := flag.Int("count", 400, "how many templates")
	seed := flag.Int64("seed", 1, "of the random numbers")
	flag.Parse()
	g := generator{rand.New(rand.NewSource(*seed))}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	written := 0
	for n := 0; written < *count; n++ {
		text := ""
		if n < len(real) {
			text = real[n]
		} else {
			text = g.template(n)
		}
		one := record(text)
		// Most of what is written at random is no template.
		if n >= len(real) && one.Rendered == nil && g.Intn(4) > 0 {
			continue
		}
		if err := encoder.Encode(one); err != nil {
			log.Fatal(err)
		}
		written++
	}
}
