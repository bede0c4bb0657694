// Report runs the tests of kernels and devices on a machine's NVIDIA card, measures what the card and Troupe on it can
// do, and writes the figures to a file in Markdown:
//
//	make gpu-report    builds it with the tag cuda, and writes docs/gpu-report.md
//
// It takes less than 20 minutes, and uses only the first card. Each part of the report is a process of its own, so that one that fails,
// crashes or hangs does not affect the others; the report lists failures.
//
// On the driver for tests (TROUPE_LIBCUDA names its file) it does the same, in a minute with -small. Such a report says at the top that its
// figures are meaningless, and goes to the standard output, never to the file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options are the flags of the command line.
type options struct {
	out    string
	small  bool
	tests  string
	within time.Duration
	part   string
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "the file to write; without it the report goes to the standard output")
	flag.BoolVar(&o.small, "small", false, "small sizes and few repetitions, to see whether everything runs")
	flag.StringVar(&o.tests, "tests", "make test-cuda", "the command that runs the tests on the card")
	flag.DurationVar(&o.within, "within", 19*time.Minute, "how long all of it may take")
	flag.StringVar(&o.part, "part", "", "run one part in this process; the report does so itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := write
	if o.part != "" {
		run = runPart
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-report:", err)
		os.Exit(1)
	}
}

// write makes the report.
func write(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, o.within)
	defer cancel()
	r := &report{options: o}
	if err := r.describe(ctx); err != nil {
		return err
	}
	for _, p := range parts {
		if p.title == "" {
			continue
		}
		fmt.Fprintf(os.Stderr, "gpu-report: %s\n", p.name)
		r.add(ctx, p)
	}
	text := r.text()
	if r.emulated || o.out == "" {
		if o.out != "" {
			fmt.Fprintf(os.Stderr, "gpu-report: the driver is emulated, so %s is not written\n", o.out)
		}
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return os.WriteFile(o.out, []byte(text), 0o644)
}

// runPart runs a part in its process.
func runPart(ctx context.Context, o options) error {
	name, variant, _ := strings.Cut(o.part, ":")
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
	if i < 0 {
		return fmt.Errorf("there is no part %q", o.part)
	}
	m, err := newMachine(o, variant)
	if err != nil {
		return err
	}
	return errors.Join(parts[i].run(ctx, m), m.written)
}
