package actors

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// readOn runs ReadFile on a task, for a client of task a with some rights.
func readOn(t *testing.T, net *network, job string, rights Rights, name string) (string, error) {
	t.Helper()
	c := openAs(t, net.node(taskName("a")), rights, "x = Placeholder() dtype=string\nread = ReadFile(x) @"+job+"0", nil)
	defer c.close()
	req := &StepRequest{Feeds: []Feed{{"x:0", kernelstest.Str(nil, name)}}, Fetches: []string{"read:0"}}
	defer req.done()
	r, err := c.session.Run(t.Context(), req)
	if err != nil {
		return "", err
	}
	defer r.Release()
	return r.Tensors[0].Strings()[0], nil
}

// TestFileRights has clients of task a read a file in a folder and one beside it, on a and on task b, which applies its own rules.
func TestFileRights(t *testing.T) {
	base := t.TempDir()
	inside, beside := filepath.Join(base, "in", "f"), filepath.Join(base, "f")
	for _, name := range []string{inside, beside} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folders := FileAccess{Folders: []string{filepath.Join(base, "in")}}
	for _, c := range []struct {
		name            string
		access          FileAccess // of both tasks
		rights          FileRights
		inside, outside bool // allowed
		reason          string
	}{
		{"loopback", FileAccess{}, AllFiles, true, true, ""},
		{"network", FileAccess{}, SharedFiles, false, false, "start it with --files DIR"},
		{"none", FileAccess{}, NoFiles, false, false, "the client at 10.0.0.7:1 has no right to files"},
		{"insecure network", FileAccess{Insecure: true}, SharedFiles, true, true, ""},
		{"insecure none", FileAccess{Insecure: true}, NoFiles, false, false, "has no right"},
		{"folders loopback", folders, AllFiles, true, false, "gives its clients only what is below " + folders.Folders[0] + " (--files)"},
		{"folders network", folders, SharedFiles, true, false, "gives its clients only"},
		{"folders none", folders, NoFiles, false, false, "has no right"},
		{"insecure folders", FileAccess{folders.Folders, true}, SharedFiles, true, false, "gives its clients only"},
	} {
		for _, job := range []string{"a", "b"} {
			t.Run(c.name+" on "+job, func(t *testing.T) {
				net := newNetworkWith(t, func(string) FileAccess { return c.access }, "a", "b")
				for _, f := range []struct {
					name    string
					allowed bool
				}{{inside, c.inside}, {beside, c.outside}} {
					got, err := readOn(t, net, job, Rights{Who: "the client at 10.0.0.7:1", Files: c.rights}, f.name)
					if f.allowed {
						if err != nil || got != "content" {
							t.Errorf("%s: %q, %v", f.name, got, err)
						}
						continue
					}
					if status.CodeOf(err) != status.PermissionDenied {
						t.Fatalf("%s: got %q, %v", f.name, got, err)
					}
					for _, want := range []string{f.name + "; Permission denied: ", c.reason, "{{node read}}"} {
						if !strings.Contains(err.Error(), want) {
							t.Errorf("the error does not say %q: %v", want, err)
						}
					}
				}
			})
		}
	}
}

// TestEachTaskHasItsOwnFolders runs one task with folders and one without.
func TestEachTaskHasItsOwnFolders(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	net := newNetworkWith(t, func(job string) FileAccess {
		if job == "b" {
			return FileAccess{Folders: []string{dir}}
		}
		return FileAccess{}
	}, "a", "b")
	network := Rights{Who: "a client", Files: SharedFiles}
	if got, err := readOn(t, net, "b", network, name); got != "content" {
		t.Errorf("on the task with a folder: %q, %v", got, err)
	}
	if _, err := readOn(t, net, "a", network, name); status.CodeOf(err) != status.PermissionDenied {
		t.Errorf("on the task without: %v", err)
	}
	if _, err := readOn(t, net, "b", everything, filepath.Join(dir, "..", "f")); status.CodeOf(err) != status.PermissionDenied {
		t.Errorf("outside of the folder, with all rights of the master: %v", err)
	}
}

// TestRefusedFilesLeaveTheGraph checks that a graph with file ops, as Savers add them, can be created and run by clients without rights to
// files as long as those ops do not run.
func TestRefusedFilesLeaveTheGraph(t *testing.T) {
	net := newNetwork(t, "a")
	c := openAs(t, net.node(taskName("a")), Rights{Who: "a client", Files: SharedFiles}, "x = Placeholder() dtype=string\nread = ReadFile(x)\ny = Const() value=7", nil)
	defer c.close()
	got, err := c.try(t.Context(), request(nil, "y:0"))
	if err != nil || got[0] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestUnknownRights checks that a worker refuses rights that it does not know, and takes absent ones for the zero Rights.
func TestUnknownRights(t *testing.T) {
	if _, err := rightsFrom(&wire.Rights{Files: uint32(AllFiles) + 1}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if _, err := rightsFrom(&wire.Rights{Files: 1 << 30}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if _, err := rightsFrom(&wire.Rights{StepBytes: -1}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if r, err := rightsFrom(nil); r.Files != NoFiles || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
	for _, r := range []FileRights{NoFiles, SharedFiles, AllFiles} {
		want := Rights{Who: "somebody", Files: r, Client: "10.0.0.7", StepBytes: 1, SessionBytes: 2, ClientBytes: 3}
		if got, err := rightsFrom(want.proto()); got != want || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
}

// TestFoldersThatCannotBeOpened checks that a server with a wrong --files does not start.
func TestFoldersThatCannotBeOpened(t *testing.T) {
	_, err := FileAccess{Folders: []string{filepath.Join(t.TempDir(), "none")}}.open("/job:a")
	if status.CodeOf(err) != status.NotFound || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}

// bounded is a policy whose only scope can be replaced.
type bounded struct{ now atomic.Pointer[rights.Scope] }

func (b *bounded) Scope() *rights.Scope { return b.now.Load() }
func (b *bounded) BeginStep() error     { return nil }

func (b *bounded) Show(c *view.Cluster) *view.Cluster { return c }
func (b *bounded) EndStep()                           {}
func (b *bounded) Close()                             {}

// denying is a scope that denies an op and a container.
func denying(op, container string) *rights.Scope {
	return &rights.Scope{Who: "client:x", File: "policy.yaml", Line: 1, Revision: rights.Next(), Ops: rights.Patterns{Deny: []rights.Pattern{{Text: op, Line: 1}}},
		Containers: rights.Patterns{Deny: []rights.Pattern{{Text: container, Line: 1}}}}
}

// TestRightsOnOtherTasks checks that a session's scope holds on other tasks than its master, and that a reload grants and denies there from
// the next step on, also for existing plans, functions and kernels with state.
func TestRightsOnOtherTasks(t *testing.T) {
	net := newNetwork(t, "a", "b")
	policy := &bounded{}
	policy.now.Store(denying("Neg", "vault"))
	def := kernelstest.GraphDef(t, `
x = Const() value=7 @b0
neg = Neg(x) @b0
sum = AddV2(x, x) @b0
q = FIFOQueueV2() @b0 container="vault"
size = QueueSizeV2(q) @b0
default = FIFOQueueV2() @b0 container="b"
defaultsize = QueueSizeV2(default) @b0
`)
	handle, err := net.node(taskName("a")).task.CreateSession(t.Context(), 0, Rights{Who: "client:x", Policy: policy}, def, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := net.node(taskName("a")).task.Session(handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, net.node(taskName("a")), s}
	defer c.close()
	try := func(fetch, refused string) {
		t.Helper()
		req := &StepRequest{Fetches: []string{fetch + ":0"}}
		defer req.done()
		r, err := s.Run(t.Context(), req)
		if err == nil {
			r.Release()
		}
		if refused == "" && err != nil {
			t.Errorf("%s: %v", fetch, err)
		}
		if refused != "" && (status.CodeOf(err) != status.PermissionDenied || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", fetch, err, refused)
		}
	}
	try("neg", "client:x may not use the op Neg: denied by \"Neg\" at policy.yaml:1")
	try("size", "may not use the container vault")
	for range 2 {
		try("sum", "")
		try("defaultsize", "")
	}
	policy.now.Store(denying("AddV2", ""))
	try("neg", "")
	try("size", "")
	try("sum", "may not use the op AddV2")
	try("defaultsize", "may not use the container b") // the default container of b
	policy.now.Store(denying("FIFOQueueV2", ""))
	try("size", "may not use the op FIFOQueueV2") // an existing kernel with state
	policy.now.Store(denying("Exp", "none"))
	for _, fetch := range []string{"neg", "size", "sum", "defaultsize"} {
		try(fetch, "")
	}
}
