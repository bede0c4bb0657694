package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/prototext"
)

// A session places nodes that call functions of a program by what its task knows when they are added: tasks may have come, or returned as those of
// a program, since the session was created.
func TestSessionsLearnOfPrograms(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	knows := func(functions map[string]device.Functions) {
		net.mu.Lock()
		defer net.mu.Unlock()
		for job, f := range functions {
			seen := slices.Clone(net.seen[taskName(job)])
			seen[0].Functions = f
			net.seen[taskName(job)] = seen
		}
	}
	knows(map[string]device.Functions{"b": device.UnknownFunctions, "c": device.NoFunctions})
	c := open(t, net.node(taskName("a")), "x = Placeholder()")
	version := int64(0)
	extend := func(name, device string) error {
		def := &graphpb.GraphDef{}
		text := fmt.Sprintf(`versions { producer: 1395 } node { name: %q op: "PyFunc" device: %q attr { key: "token" value { s: "f" } }
			attr { key: "Tin" value { list { } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }`, name, device)
		if err := prototext.Unmarshal([]byte(text), def); err != nil {
			t.Fatal(err)
		}
		next, err := c.session.Extend(t.Context(), def, version)
		if err == nil {
			version = next
		}
		return err
	}
	for _, step := range []struct {
		knows      map[string]device.Functions
		name, want string // the node, and the job that it is on
	}{
		{nil, "early", "b"}, // it may have some
		{map[string]device.Functions{"b": device.NoFunctions, "c": device.HasFunctions}, "later", "c"},
		{map[string]device.Functions{"b": device.HasFunctions, "c": device.NoFunctions}, "last", "b"},
	} {
		knows(step.knows)
		if err := extend(step.name, ""); err != nil {
			t.Fatal(err)
		}
		if got, want := c.session.graph.Load().Lookup(step.name).Assigned, taskName(step.want)+"/device:CPU:0"; got != want {
			t.Errorf("%s is on %s, want %s", step.name, got, want)
		}
	}
	err := extend("pinned", "/job:c")
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "{{node pinned}} (PyFunc) calls a function") {
		t.Errorf("on a task that has none: %v", err)
	}
	knows(map[string]device.Functions{"c": device.HasFunctions})
	if err := extend("pinned", "/job:c"); err != nil {
		t.Errorf("on the same task when it has some: %v", err)
	}
	c.close()
}
