package files_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
)

func TestLocal(t *testing.T) {
	for name, want := range map[string]string{
		"/a/b": "/a/b", "a": "a", "": "", "file:///a/b": "/a/b", "file://host/a": "/a", "file://": "/", "./x://y": "x:/y",
	} {
		if got, err := files.Local(name); got != want || err != nil {
			t.Errorf("Local(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := files.Local("gs://bucket/a"); status.CodeOf(err) != status.Unimplemented || err.Error() != "File system scheme 'gs' not implemented (file: 'gs://bucket/a')" {
		t.Errorf("got %v", err)
	}
}

func TestError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none")
	_, err := os.Open(name)
	err = files.Error(name, err)
	if status.CodeOf(err) != status.NotFound || err.Error() != name+"; No such file or directory" {
		t.Errorf("got %v: %v", status.CodeOf(err), err)
	}
	err = files.Error(name, syscall.EACCES)
	if status.CodeOf(err) != status.PermissionDenied {
		t.Errorf("got %v: %v", status.CodeOf(err), err)
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := "model/none; No such file or directory (relative to " + folder + ", the working directory of the task's server)"
	if err := files.Error("model/none", syscall.ENOENT); err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
