package graph

import (
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestAllOps compiles every declaration: none may use a feature that signatures do not support.
func TestAllOps(t *testing.T) {
	if n := len(declarations()); n < 1800 {
		t.Fatalf("%d ops, want TensorFlow's 1,900 or so", n)
	}
	for name := range declarations() {
		def, err := LookupOp(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if def.Name != name || def.Summary != "" || def.Description != "" {
			t.Errorf("%s: got %s with texts %q %q", name, def.Name, def.Summary, def.Description)
		}
	}
	for _, name := range []string{"_Arg", "_Retval", "_Send", "_Recv", "_HostSend", "_HostRecv", "_DeviceArg", "SymbolicGradient", "Merge", "VariableV2"} {
		if _, err := LookupOp(name); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownOp(t *testing.T) {
	_, err := LookupOp("Frobnicate")
	if status.CodeOf(err) != status.NotFound || !strings.HasPrefix(err.Error(), "Op type not registered 'Frobnicate' in binary running on ") {
		t.Fatal(status.CodeOf(err), err)
	}
}

// TestLookupConcurrently checks that every goroutine gets the same message.
func TestLookupConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	got := make([]*OpDef, 8)
	for i := range got {
		wg.Go(func() {
			def, err := LookupOp("Conv3DBackpropFilterV2")
			if err != nil {
				t.Error(err)
			}
			got[i] = def
		})
	}
	wg.Wait()
	for _, def := range got {
		if def != got[0] {
			t.Fatal("two lookups gave two messages")
		}
	}
}
