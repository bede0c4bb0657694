package actors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
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

// TestFileRights has clients of task a read a file in a folder and one beside it, on a and on another task b, which
// applies its own rules.
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

// TestEachTaskHasItsOwnFolders has one task with folders and one without.
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

// TestRefusedFilesLeaveTheGraph holds that a graph with ops on files, as Savers put into it, is created and runs for those
// who may not use files, as long as the ops do not run.
func TestRefusedFilesLeaveTheGraph(t *testing.T) {
	net := newNetwork(t, "a")
	c := openAs(t, net.node(taskName("a")), Rights{Who: "a client", Files: SharedFiles}, "x = Placeholder() dtype=string\nread = ReadFile(x)\ny = Const() value=7", nil)
	defer c.close()
	got, err := c.try(t.Context(), request(nil, "y:0"))
	if err != nil || got[0] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestUnknownRights holds that a worker refuses rights that it does not know, and takes absent ones for none.
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

// TestFoldersThatCannotBeOpened holds that a server with a wrong --files does not start.
func TestFoldersThatCannotBeOpened(t *testing.T) {
	_, err := FileAccess{Folders: []string{filepath.Join(t.TempDir(), "none")}}.open("/job:a")
	if status.CodeOf(err) != status.NotFound || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}
