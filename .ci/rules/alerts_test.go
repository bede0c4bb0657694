package rules

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

// alertCase is what an alert says to series; all durations are after the first sample.
type alertCase struct {
	Alert    string
	Interval time.Duration
	Series   map[string]string
	Quiet    []time.Duration
	Fires    []time.Duration
	Summary  string // of the last time at which it fires
}

// TestAlerts has Prometheus evaluate the alerts over time: each fires when it shall, no earlier, and not for what only looks like it.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("testdata/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []alertCase
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	untried := map[string]bool{} // by alert that no case has firing, and quiet before
	for i, c := range cases {
		t.Run(fmt.Sprintf("%d %s", i, c.Alert), func(t *testing.T) {
			for name := range evaluate(t, c) {
				if _, known := untried[name]; !known {
					untried[name] = true
				}
			}
			if len(c.Fires) > 0 && len(c.Quiet) > 0 && c.Summary != "" {
				untried[c.Alert] = false
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(untried)) {
		if untried[name] {
			t.Errorf("no case has %s firing, and quiet", name)
		}
	}
}

// evaluate runs a case, and gives the alerts that there are.
func evaluate(t *testing.T, c alertCase) map[string]*rules.AlertingRule {
	if c.Interval == 0 {
		c.Interval = 30 * time.Second
	}
	var load strings.Builder
	fmt.Fprintf(&load, "load %v\n", c.Interval)
	for _, name := range slices.Sorted(maps.Keys(c.Series)) {
		fmt.Fprintf(&load, "  %s %s\n", name, c.Series[name])
	}
	p := parser.NewParser(parser.Options{})
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, Parser: p})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := suite.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := rules.NewManager(&rules.ManagerOptions{QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), AppendableV2: suite.Storage(),
		Context: t.Context(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: p})
	groups, errs := m.LoadGroups(c.Interval, labels.EmptyLabels(), "", nil, false, root+"deploy/prometheus/rules.yml")
	for _, err := range errs {
		t.Fatal(err)
	}
	alerts := map[string]*rules.AlertingRule{}
	for _, g := range groups {
		for _, r := range g.Rules() {
			if a, ok := r.(*rules.AlertingRule); ok {
				a.SetRestored(true) // nothing is kept from an earlier process
				alerts[a.Name()] = a
			}
		}
	}
	alert := alerts[c.Alert]
	if alert == nil {
		t.Fatalf("there is no alert %s", c.Alert)
	}
	wanted := map[time.Duration]bool{}
	for _, at := range c.Quiet {
		wanted[at] = false
	}
	for _, at := range c.Fires {
		wanted[at] = true
	}
	if len(wanted) == 0 || len(wanted) < len(c.Quiet)+len(c.Fires) {
		t.Fatal("the case says nothing, or a time twice")
	}
	start, end := time.Unix(0, 0).UTC(), slices.Max(slices.Collect(maps.Keys(wanted)))
	tried := 0
	for at := time.Duration(0); at <= end; at += c.Interval {
		suite.WithSamplesTill(start.Add(at), func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(suite.Context(), start.Add(at))
			}
		})
		for _, a := range alerts {
			if err := a.LastError(); err != nil {
				t.Fatalf("%s at %v: %v", a.Name(), at, err)
			}
		}
		want, asked := wanted[at]
		if !asked {
			continue
		}
		tried++
		var summaries []string
		for _, a := range alert.ActiveAlerts() {
			if a.State == rules.StateFiring {
				summaries = append(summaries, a.Annotations.Get("summary"))
			}
		}
		switch {
		case want != (len(summaries) == 1):
			t.Errorf("at %v, %q fire; want that it fires: %v", at, summaries, want)
		case want && at == slices.Max(c.Fires) && summaries[0] != c.Summary:
			t.Errorf("at %v it says %q, want %q", at, summaries[0], c.Summary)
		}
	}
	if tried != len(wanted) {
		t.Errorf("%d of %d times are no multiples of %v", len(wanted)-tried, len(wanted), c.Interval)
	}
	return alerts
}
