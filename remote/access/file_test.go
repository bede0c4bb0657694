package access

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestWhoMayReadSecrets checks that a secret must be its user's alone, or root's with read access for the group.
func TestWhoMayReadSecrets(t *testing.T) {
	const root, self, other = 0, 65532, 1000
	for _, c := range []struct {
		mode        os.FileMode
		owner, self int
		want        bool
	}{
		{0o600, self, self, true}, {0o400, self, self, true}, {0o600, other, self, true}, {0o600, root, root, true},
		{0o640, self, self, false}, {0o640, other, self, false}, {0o640, root, root, false}, {0o604, root, self, false},
		{0o440, root, self, true}, {0o640, root, self, true}, {0o400, root, self, true},
		{0o660, root, self, false}, {0o444, root, self, false}, {0o650, root, self, false}, {0o644, root, self, false},
		{0o440, -1, self, false}, {0o440, root, -1, false},
	} {
		if got := private(c.mode, c.owner, c.self); got != c.want {
			t.Errorf("mode %04o, owner %d, user %d: %v", c.mode, c.owner, c.self, got)
		}
	}
}

func TestOwnersOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := ownerOf(info); got != os.Geteuid() && runtime.GOOS != "windows" {
		t.Errorf("the owner of a file of user %d is %d", os.Geteuid(), got)
	}
}
