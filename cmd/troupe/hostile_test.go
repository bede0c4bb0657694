package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// notAsked are the commands with a target that do not end in the test below, or that change what it looks at.
var notAsked = []string{"drain", "reset", "cancel", "proxy", "wait"}

// TestHostileNames runs each command that looks at a cluster on one where a client has chosen names that control terminals and end lines.
func TestHostileNames(t *testing.T) {
	const hostile = "\x1b]0;owned\a\x1b[2J\u009b2J\nFORGED\r\u202eline"
	server, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"local": {"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	c, err := client.Dial(t.Context(), server.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	s := op.NewScope()
	queue := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32}, attr.SharedName(hostile))
	op.QueueDequeueV2(s.WithName("never"), queue, []tensor.DType{tensor.Float32})
	begun := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32}, attr.SharedName("begun"))
	op.QueueEnqueueV2(s.WithName("begin"), begun, []op.Output{op.Const[float32](s, 1)})
	op.QueueDequeueV2(s.WithName("begun"), begun, []tensor.DType{tensor.Float32})
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.NewSession(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := session.Run(ctx, nil, []string{"never:0"}, []string{"begin"}); ctx.Err() == nil {
			t.Error(err)
			cancel()
		}
	}()
	defer func() { cancel(); <-ended }()
	if _, err := session.Run(ctx, nil, []string{"begun:0"}, nil); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, cmd := range newRoot(os.Stdin).Commands() {
		if !strings.Contains(cmd.Use, "TARGET") || slices.Contains(notAsked, cmd.Name()) {
			continue
		}
		for _, flags := range flagsOf(t, cmd) {
			args := append([]string{cmd.Name(), server.Target()}, flags...)
			var out, errs bytes.Buffer
			bounded, stop := context.WithTimeout(t.Context(), 5*time.Second)
			run(bounded, args, os.Stdin, &out, &errs)
			stop()
			asked++
			for _, text := range []string{out.String(), errs.String()} {
				if strings.ContainsAny(text, "\x1b\a\r\u009b\u202e") {
					t.Errorf("%q prints what commands a terminal:\n%q", args, text)
				}
				for line := range strings.SplitSeq(text, "\n") {
					if strings.HasPrefix(line, "FORGED") {
						t.Errorf("%q prints a line that a client has made:\n%q", args, text)
					}
				}
			}
			t.Logf("%q: %d bytes, with the name: %v", args, out.Len(), strings.Contains(out.String(), "FORGED"))
		}
	}
	if asked < 10 {
		t.Errorf("only %d commands were asked", asked)
	}
}

// flagsOf returns the ways to run a command: for people and, if it has --json, as JSON.
func flagsOf(t *testing.T, cmd *cobra.Command) [][]string {
	var short []string
	switch cmd.Name() {
	case "why":
		short = []string{"--longer-than", "0s"}
	case "top":
		short = []string{"--once"}
	case "timeline":
		short = []string{"--output", filepath.Join(t.TempDir(), "trace.json")}
	}
	all := [][]string{short}
	if cmd.Flags().Lookup("json") != nil {
		all = append(all, append(slices.Clone(short), "--json"))
	}
	return all
}
