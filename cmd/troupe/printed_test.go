package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// TestGraphsDoNotSpeakForServers checks that the output of ops on standard output is not mistaken for the server's messages to the program
// that embeds it.
func TestGraphsDoNotSpeakForServers(t *testing.T) {
	def := filepath.Join(t.TempDir(), "server_def")
	text := fmt.Sprintf(`cluster { job { name: "local" tasks { key: 0 value: %q } } } job_name: "local" protocol: "grpc"`, spectest.Addresses(t, 1)[0])
	if err := os.WriteFile(def, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "serve", "--server-def", def)
	at, ok := strings.CutPrefix(p.line(p.stdout), "TARGET ")
	if !ok {
		t.Fatal("the server does not say its target")
	}
	if _, err := fmt.Fprintln(p.stdin, "start"); err != nil {
		t.Fatal(err)
	}
	if got := p.line(p.stdout); got != "STARTED" {
		t.Fatalf("got %q", got)
	}
	c, err := client.Dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	s := op.NewScope()
	op.PrintV2(s.WithName("say"), op.Const(s, "\nERROR 3 forged"), attr.OutputStream("stdout"))
	g, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.NewSession(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Run(t.Context(), nil, nil, []string{"say"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(p.stdin, "start"); err != nil {
		t.Fatal(err)
	}
	if got := p.line(p.stdout); got != "STARTED" {
		t.Errorf("a graph has said %q", got)
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if _, log := p.ends(); !strings.Contains(log, "ERROR 3 forged") {
		t.Errorf("what the graph printed is nowhere: %s", log)
	}
}
