//go:build unix

package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// confine returns the files below some folders.
func confine(t *testing.T, dirs ...string) FS {
	t.Helper()
	f, err := OpenFolders(dirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f.Confine("it is beside the folders")
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfinedPaths(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "dir")
	put(t, filepath.Join(dir, "a", "f"), "in")
	put(t, filepath.Join(base, "f"), "out")
	put(t, filepath.Join(base, "dir2", "f"), "out")
	for link, to := range map[string]string{"ok": "a", "okfile": "a/f", "up": "..", "abs": base, "absin": dir + "/a", "dangling": "../none", "loop": "loop", "deep": "a/../../f"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(base, "alias")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "a"))
	fsys := confine(t, filepath.Join(base, "alias"), filepath.Join(dir, "a"))
	for path, want := range map[string]status.Code{
		dir + "/a/f":                    status.OK,
		base + "/alias/a/f":             status.OK, // as the folder was given, and with links resolved
		"f":                             status.OK, // relative to the working directory
		"../a/f":                        status.OK,
		"file://" + dir + "/a/f":        status.OK,
		"file://host" + dir + "/a/f":    status.OK,
		dir + "/ok/f":                   status.OK,
		dir + "/okfile":                 status.OK,
		dir + "/../dir/a/f":             status.OK,
		dir + "/a/none":                 status.NotFound,
		dir + "/a/f/g":                  status.FailedPrecondition,
		dir:                             status.FailedPrecondition,
		"":                              status.NotFound,
		"/":                             status.PermissionDenied,
		base + "/f":                     status.PermissionDenied,
		base + "/dir2/f":                status.PermissionDenied,
		"../../f":                       status.PermissionDenied,
		dir + "/../f":                   status.PermissionDenied,
		dir + "/up/f":                   status.PermissionDenied,
		dir + "/abs/f":                  status.PermissionDenied,
		dir + "/absin/f":                status.PermissionDenied, // an absolute link, wherever it leads
		dir + "/dangling":               status.PermissionDenied,
		dir + "/deep":                   status.PermissionDenied,
		dir + "/loop":                   status.Unknown, // ELOOP, as in TensorFlow
		dir + "/a/f\x00":                status.InvalidArgument,
		dir + strings.Repeat("/a", 4e3): status.InvalidArgument, // ENAMETOOLONG
		"gs://bucket" + dir + "/a/f":    status.Unimplemented,
	} {
		got, err := Read(fsys, path)
		if status.CodeOf(err) != want && (want != status.InvalidArgument || status.CodeOf(err) != status.NotFound) {
			t.Errorf("%.80q: got %q, %v: %v, want %v", path, got, status.CodeOf(err), err, want)
		}
		if err == nil && got != "in" {
			t.Errorf("%q: got %q", path, got)
		}
	}
}

func TestConfinedChanges(t *testing.T) {
	base := t.TempDir()
	dir, other := filepath.Join(base, "dir"), filepath.Join(base, "other")
	put(t, filepath.Join(dir, "f"), "in")
	put(t, filepath.Join(other, "f"), "other")
	put(t, filepath.Join(base, "f"), "out")
	if err := os.Symlink("../f", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	fsys := confine(t, dir, other)
	in, out := filepath.Join(dir, "f"), filepath.Join(base, "f")
	for what, err := range map[string]error{
		"write":       Write(fsys, out, "x"),
		"write far":   Write(fsys, base+"/new/folder/f", "x"),
		"follow":      Write(fsys, filepath.Join(dir, "link"), "x"),
		"rename to":   fsys.Rename(in, out),
		"rename from": fsys.Rename(out, in),
		"link to":     fsys.Link(in, base+"/g"),
		"link from":   fsys.Link(out, dir+"/g"),
		"remove":      fsys.Remove(out),
		"mkdir":       fsys.Mkdir(base + "/new"),
		"mkdirs":      fsys.MkdirAll(dir + "/../new/new"),
		"list":        errorOf(fsys.List(base)),
		"stat":        errorOf(fsys.Stat(out)),
		"lock":        errorOf(fsys.Lock(base)),
		"sync":        fsys.SyncDir(base),
		"create":      errorOf(fsys.Create(base + "/new")),
	} {
		if status.CodeOf(err) != status.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := fsys.Rename(in, other+"/g"); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("between two folders: %v", err)
	}
	check(t, Write(fsys, dir+"/new/folder/f", "x"), status.OK, "")
	for path, want := range map[string]string{in: "in", out: "out", other + "/f": "other", dir + "/new/folder/f": "x"} {
		if b, err := os.ReadFile(path); string(b) != want || err != nil {
			t.Errorf("%s is %q, %v", path, b, err)
		}
	}
	if entries, err := os.ReadDir(base); len(entries) != 3 || err != nil {
		t.Errorf("there are %v, %v", entries, err)
	}
	// Outside files do not match, and are no reason to fail if wildcards lead there.
	if got, err := Match(fsys, dir+"/*"); len(got) != 3 || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := Match(fsys, base+"/*"); status.CodeOf(err) != status.PermissionDenied {
		t.Errorf("got %q, %v", got, err)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// TestSwappedLinks repeatedly replaces a folder by a link that leads out, and back, while files in it are opened.
func TestSwappedLinks(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "dir")
	put(t, filepath.Join(dir, "real", "f"), "in")
	put(t, filepath.Join(base, "out", "f"), "out")
	if err := errors.Join(os.Symlink("../out", filepath.Join(dir, "bad")), os.Symlink("real", filepath.Join(dir, "x"))); err != nil {
		t.Fatal(err)
	}
	fsys := confine(t, dir)
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			to := []string{"real", "../out"}[i%2]
			if err := errors.Join(os.Symlink(to, filepath.Join(dir, "next")), os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "x"))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	read, refusals := 0, 0
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		got, err := Read(fsys, filepath.Join(dir, "x", "f"))
		switch {
		case err == nil && got == "in":
			read++
		case status.CodeOf(err) == status.PermissionDenied || status.CodeOf(err) == status.NotFound:
			refusals++
		default:
			t.Fatalf("got %q, %v", got, err)
		}
		if err := Write(fsys, filepath.Join(dir, "x", "g"), "x"); err == nil {
			continue
		}
	}
	close(stop)
	swapper.Wait()
	if _, err := os.Stat(filepath.Join(base, "out", "g")); !os.IsNotExist(err) {
		t.Errorf("a file was written outside: %v", err)
	}
	t.Logf("%d reads, %d refusals", read, refusals)
}

func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fsys := range []FS{All, confine(t, dir, "/dev")} {
		for path, kind := range map[string]string{pipe: "a named pipe", "/dev/zero": "a device", "/dev/full": "a device"} {
			_, err := Read(fsys, path)
			check(t, err, status.FailedPrecondition, path+"; It is "+kind)
			check(t, Write(fsys, path, "x"), status.FailedPrecondition, path+"; It is "+kind)
		}
	}
}

// TestLargeFiles checks that a file is rejected by its size, before memory is allocated for it.
func TestLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "")
	if err := os.Truncate(path, 100<<30); err != nil {
		t.Skip(err)
	}
	_, err := Read(All, path)
	check(t, err, status.ResourceExhausted, "limit")
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	before := tensor.Process.Limit()
	tensor.Process.SetLimit(tensor.Process.Held() + 1<<20)
	defer tensor.Process.SetLimit(before)
	_, err = Read(All, path)
	check(t, err, status.ResourceExhausted, path+"; There is no memory for its content")
}

// TestWhile checks that an operation ends with its step, and that cleaning up continues.
func TestWhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "content")
	var over error
	fsys := While(All, func() error { return over })
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	over = status.New(status.Cancelled, "over")
	_, err = io.ReadAll(f)
	check(t, err, status.Cancelled, "over")
	_, err = Read(fsys, path)
	check(t, err, status.Cancelled, "over")
	check(t, Write(fsys, path, "x"), status.Cancelled, "over")
	_, err = Match(fsys, filepath.Dir(path)+"/*")
	check(t, err, status.Cancelled, "over")
	if _, err := Read(Always(fsys), path); err != nil {
		t.Error(err)
	}
	if err := fsys.Remove(path); err != nil {
		t.Error(err)
	}
}
