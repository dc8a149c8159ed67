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
	"sum(<<.Series>>{<<. LabelMatchers>>})",
	`sum(<<.Series>>{type="<<.LabelMatchers.type>>"})`,
}

// pieces are put into templates where they do not belong.
var pieces = strings.Split("<<¦>>¦<<- ¦ ->>¦->>¦<<end>>¦<<if .Series>>¦<<range .GroupBySlice>>¦("+
	"¦)¦\"¦`¦.¦$¦,¦ ¦\n¦\t¦1¦-¦/*¦*/¦index¦nil¦\\¦é¦<</*¦*/>>¦:¦'¦%¦_¦\u00a0¦\v¦\x00¦;¦[¦.Series¦<<.Series>>¦#¦|", "¦")

type generator struct{ *rand.Rand }

func (g generator) of(from ...string) string { return from[g.Intn(len(from))] }

func (g generator) space() string { return g.of("", "", "", " ", "  ", "\t", "\n", "\r\n ") }

// action is one that a rule may have, with spaces as they come.
func (g generator) action() string {
	inside := g.of(".Series", ".LabelMatchers", ".LabelValuesByName", ".GroupBy", ".GroupBySlice")
	if g.Intn(3) == 0 {
		key := g.of(`"pod"`, `"namespace"`, `"empty"`, `"nope"`, `"é"`, `"a b"`, `"\x70od"`, "`pod`", `">>"`, `""`)
		inside = "index" + g.of(" ", " ", g.space()) + ".LabelValuesByName" + g.of(" ", " ", g.space()) + key
	}
	return g.of("<<", "<<", "<<", "<<", "<<- ") + g.space() + inside + g.space() + g.of(">>", ">>", ">>", ">>", " ->>")
}

func (g generator) text() string {
	return g.of("", "a", " ", "sum(rate(", "[2m])) by (", " b ", "\n\t", "{", "}", "é", ">>", "<", "-", "\u00a0", "\r\n x ", "\v", "{{.Series}}")
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

func (g generator) template(n int) string {
	all := g.text()
	for range g.Intn(5) {
		all += g.action() + g.text()
	}
	switch n % 4 {
	case 0:
		return g.mutate(g.of(real...))
	case 1:
		return g.mutate(all)
	}
	return all
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
		var out strings.Builder
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
