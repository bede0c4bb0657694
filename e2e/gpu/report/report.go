package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// part is a part of the report. A part without a title is only used by other parts.
type part struct {
	name, title string
	// about says what is measured, and how to read it.
	about string
	limit time.Duration
	run   func(ctx context.Context, m *machine) error
	// variants are ways to run it, each in a process. Rows of their tables with the same first cell are joined.
	variants []variant
}

// variant is one way to run a part.
type variant struct {
	name string
	env  []string
}

// event is one finding of a part, a line of JSON on its standard output.
type event struct {
	Text   string   `json:",omitempty"` // a paragraph
	Head   []string `json:",omitempty"` // begins a table
	Row    []string `json:",omitempty"`
	Failed string   `json:",omitempty"`
	// Card and Emulated describe the card; a separate part reports them.
	Card     string `json:",omitempty"`
	Emulated bool   `json:",omitempty"`
}

// report is what the parts have found so far.
type report struct {
	options
	card     string
	emulated bool
	begun    time.Time
	head     strings.Builder
	body     strings.Builder
	failures []string
}

// describe begins the report with a description of the machine. Without a card it returns an error.
func (r *report) describe(ctx context.Context) error {
	r.begun = time.Now()
	events, err := r.process(ctx, part{name: "card", limit: time.Minute}, variant{})
	for _, e := range events {
		if e.Card != "" {
			r.card, r.emulated = e.Card, e.Emulated
		}
	}
	if r.card == "" {
		if err == nil {
			err = errors.New("nothing is known of it")
		}
		return fmt.Errorf("no card can be used: %w", err)
	}
	r.head.WriteString(render(events))
	return nil
}

// add runs a part, and adds its figures and failures to the report.
func (r *report) add(ctx context.Context, p part) {
	variants := p.variants
	if len(variants) == 0 {
		variants = []variant{{}}
	}
	var all []event
	for _, v := range variants {
		events, err := r.process(ctx, p, v)
		if err != nil {
			events = append(events, event{Failed: err.Error()})
		}
		for i, e := range events {
			if e.Failed != "" && v.name != "" {
				events[i].Failed = v.name + ": " + e.Failed
			}
		}
		all = join(all, events)
	}
	for _, e := range all {
		if e.Failed != "" {
			r.failures = append(r.failures, fmt.Sprintf("%s: %s", p.title, summary(e.Failed)))
		}
	}
	fmt.Fprintf(&r.body, "\n## %s\n\n%s\n\n%s", p.title, p.about, render(all))
}

// summary returns the first lines of an error as one line.
func summary(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[:min(2, len(lines))], " ")
}

// join adds the findings of another variant of a part: cells to the rows with the same first cell, and everything else at the end.
func join(all, more []event) []event {
	at := slices.IndexFunc(all, func(e event) bool { return len(e.Head) > 0 })
	if at < 0 {
		return append(all, more...)
	}
	width := len(all[at].Head)
	for _, e := range more {
		switch {
		case len(e.Head) > 0:
			all[at].Head = append(all[at].Head, e.Head[1:]...)
		case len(e.Row) > 0:
			i := slices.IndexFunc(all, func(o event) bool { return len(o.Row) > 0 && o.Row[0] == e.Row[0] })
			if i < 0 {
				i = len(all)
				all = append(all, event{Row: append(e.Row[:1:1], make([]string, width-1)...)})
			}
			all[i].Row = append(all[i].Row, e.Row[1:]...)
		default:
			all = append(all, e)
		}
	}
	for i, e := range all {
		if n := len(all[at].Head) - len(e.Row); len(e.Row) > 0 && n > 0 {
			all[i].Row = append(e.Row, make([]string, n)...)
		}
	}
	return all
}

// render renders events as Markdown: failures come last.
func render(events []event) string {
	var b, failures strings.Builder
	table := false
	for _, e := range events {
		if table && len(e.Row) == 0 && e.Failed == "" {
			b.WriteByte('\n')
			table = false
		}
		switch {
		case len(e.Head) > 0:
			line(&b, e.Head)
			line(&b, slices.Repeat([]string{"---"}, len(e.Head)))
			table = true
		case len(e.Row) > 0:
			line(&b, e.Row)
			table = true
		case e.Text != "":
			b.WriteString(e.Text + "\n\n")
		case e.Failed != "":
			failures.WriteString("\n**Failed:**\n\n```\n" + strings.TrimSpace(e.Failed) + "\n```\n")
		}
	}
	return b.String() + failures.String()
}

func line(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// process runs a part in a process of its own and returns its findings, even if it failed later.
func (r *report) process(ctx context.Context, p part, v variant) ([]event, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, errors.New("there was no time left for it")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	name := p.name
	if v.name != "" {
		name += ":" + v.name
	}
	cmd := exec.CommandContext(ctx, self, "-part", name, "-tests", r.tests)
	if r.small {
		cmd.Args = append(cmd.Args, "-small")
	}
	cmd.Env = append(os.Environ(), v.env...)
	cmd.WaitDelay = 5 * time.Second
	var stdout bytes.Buffer
	stderr := &tail{}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not end within %v", p.limit)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, stderr.String())
	}
	var events []event
	for text := range strings.Lines(stdout.String()) {
		var e event
		if bad := json.Unmarshal([]byte(text), &e); bad != nil {
			return events, errors.Join(err, fmt.Errorf("it printed %q: %w", text, bad))
		}
		events = append(events, e)
	}
	return events, err
}

// tail keeps the end of a process's output.
type tail struct{ text []byte }

const tailSize = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = slices.Delete(t.text, 0, extra)
	}
	return len(b), nil
}

func (t *tail) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?")) }

// text returns the whole report.
func (r *report) text() string {
	var b strings.Builder
	b.WriteString("# Troupe on a card\n\n")
	if r.emulated {
		b.WriteString("**The driver was emulated: kernels ran on the CPU. No figure below says anything about a card.**\n\n")
	}
	fmt.Fprintf(&b, "Made by `make gpu-report` in %v on %s, at commit %s, with %s on %s/%s.\n\n", time.Since(r.begun).Round(time.Second),
		r.begun.UTC().Format("2006-01-02 15:04 UTC"), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	b.WriteString(r.head.String())
	b.WriteString("\n## What failed\n\n")
	if len(r.failures) == 0 {
		b.WriteString("Nothing.\n")
	}
	for _, f := range r.failures {
		b.WriteString("- " + f + "\n")
	}
	b.WriteString(r.body.String())
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// commit returns the commit of the tree, if git is available.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
