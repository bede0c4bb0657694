// Package rules checks what operators' systems are configured with: the alerts in deploy/prometheus and the dashboard in
// deploy/grafana. It is a module of its own, since Prometheus' parsers bring many others along.
package rules

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../../"

// documented are the metrics of docs/metrics.md, which a test of the collector holds to be its own, with their labels.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(root + "docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	// What Prometheus and its Go client add.
	all := map[string][]string{"up": nil, "process_open_fds": nil, "process_max_fds": nil, "process_cpu_seconds_total": nil,
		"process_resident_memory_bytes": nil, "go_goroutines": nil}
	for _, m := range regexp.MustCompile("(?m)^\\| `(troupe_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		name, kind := m[1], m[2]
		var own []string
		for _, l := range regexp.MustCompile("[a-z_]+").FindAllString(m[3], -1) {
			own = append(own, l)
		}
		if kind != "histogram" {
			all[name] = own
			continue
		}
		all[name+"_bucket"] = append(slices.Clone(own), "le")
		all[name+"_sum"], all[name+"_count"] = own, own
	}
	if len(all) < 30 {
		t.Fatalf("docs/metrics.md lists %d metrics", len(all))
	}
	return all
}

// fromScrapes are labels that Prometheus adds.
var fromScrapes = []string{"job", "instance"}

// check parses an expression and holds that its metrics exist, and have the labels that it matches and groups by.
func check(t *testing.T, where, expression string, metrics map[string][]string) {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	known := map[string]bool{}
	for _, l := range fromScrapes {
		known[l] = true
	}
	var grouped []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			has, ok := metrics[n.Name]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, n.Name)
			}
			for _, l := range has {
				known[l] = true
			}
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !slices.Contains(has, m.Name) && !slices.Contains(fromScrapes, m.Name) {
					t.Errorf("%s: %s has no label %s", where, n.Name, m.Name)
				}
			}
		case *parser.AggregateExpr:
			grouped = append(grouped, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouped = append(grouped, n.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	for _, l := range grouped {
		if !known[l] {
			t.Errorf("%s: no metric has the label %s", where, l)
		}
	}
}

func TestRules(t *testing.T) {
	metrics := documented(t)
	groups, errs := rulefmt.ParseFile(root+"deploy/prometheus/rules.yml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		return
	}
	alerts := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts++
			check(t, r.Alert, r.Expr, metrics)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has no severity, summary or description", r.Alert)
			}
		}
	}
	if alerts < 5 {
		t.Errorf("only %d alerts were found", alerts)
	}
}

// variables are how Grafana's queries name what is chosen on the page.
var variables = map[string]string{"$__rate_interval": "5m", "$job": "troupe", "$task": ".*"}

func TestDashboard(t *testing.T) {
	metrics := documented(t)
	text, err := os.ReadFile(root + "deploy/grafana/troupe.json")
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ X, Y, W, H int }
	var page struct {
		UID, Title    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Query string }
		}
		Panels []struct {
			ID                       int
			Title, Description, Type string
			GridPos                  place
			FieldConfig              struct{ Defaults struct{ Unit string } }
			Targets                  []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	ids, taken, queries := map[int]bool{}, map[place]bool{}, 0
	for _, p := range page.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has another's number, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := place{X: p.GridPos.X + x, Y: p.GridPos.Y + y}
				if taken[at] || at.X >= 24 {
					t.Fatalf("%s lies over another panel, or beyond the page", p.Title)
				}
				taken[at] = true
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s shows nothing, or has no unit", p.Title)
		}
		for _, q := range p.Targets {
			queries++
			expression := q.Expr
			for _, name := range slices.SortedFunc(maps.Keys(variables), func(a, b string) int { return len(b) - len(a) }) {
				expression = strings.ReplaceAll(expression, name, variables[name])
			}
			check(t, p.Title, expression, metrics)
		}
	}
	if queries < 15 {
		t.Errorf("only %d queries were found", queries)
	}
}
