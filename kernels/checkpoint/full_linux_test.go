package checkpoint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// mountedFolder, in the environment, is the folder in which the test runs again, in its own mount namespace.
const mountedFolder = "TROUPE_TEST_MOUNTED_FOLDER"

// inNamespace runs the test again where it may mount file systems. There, it returns the folder to mount on; outside, it returns "", and
// the test is over.
func inNamespace(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(mountedFolder); dir != "" {
		return dir
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mountedFolder+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("no namespace of users and mounts: %v", err)
	case err != nil:
		t.Errorf("in the namespace: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("in the namespace: %s", out)
	}
	return ""
}

func mount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("mount: %v", err)
	}
}

// TestFullAndReadOnlyDisk saves to a file system of 256 KiB until it is full, and then makes it read-only: the last saved checkpoint must
// be restorable, the error must describe the problem, and nothing else may be left.
func TestFullAndReadOnlyDisk(t *testing.T) {
	dir := inNamespace(t)
	if dir == "" {
		return
	}
	mount(t, dir, 0, "size=256k")
	prefix := filepath.Join(dir, "model")
	if err := tryWrite(files.All, prefix, generation(1)); err != nil {
		t.Fatal(err)
	}
	before := list(t, dir)
	large := append(generation(2), named{"large", "", kt.F32(kt.S(1<<17), make([]float32, 1<<17)...)})
	for range 3 {
		err := tryWrite(files.All, prefix, large)
		if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "No space left on device") {
			t.Errorf("on the full disk: %v", err)
		}
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	if err := tryWrite(files.All, prefix, generation(2)); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("on the disk without any room: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if n, err := generationOf(files.All, prefix); n != 1 || err != nil {
		t.Errorf("generation %d, %v", n, err)
	}
	if after := list(t, dir); len(after) != len(before) {
		t.Errorf("there are %q, there were %q", after, before)
	}
	mount(t, dir, syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	if err := tryWrite(files.All, prefix, generation(2)); status.CodeOf(err) != status.PermissionDenied || !strings.Contains(err.Error(), "Read-only file system") {
		t.Errorf("on the read-only disk: %v", err)
	}
	checkpoint.Sweep(files.All, prefix)
	if n, err := generationOf(files.All, prefix); n != 1 || err != nil {
		t.Errorf("generation %d, %v", n, err)
	}
}
