package troupe

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
)

// A server does not start with a certificate that is not its own: each peer would refuse it.
func TestServersNeedTheirOwnCertificate(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority, made, err := access.NewAuthority("test", time.Now().Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ca := write("ca.pem", made.Cert)
	for name, fits := range map[access.Name]bool{access.ClientName("alice"): false, access.TaskName("ps", 0): false, access.TaskName("local", 1): false,
		access.TaskName("local", 0): true, access.JobName("local"): true, {}: false} {
		files := access.CredentialFiles{CA: ca}
		if name != (access.Name{}) {
			p, err := authority.Issue(access.Request{Name: name, Hosts: []string{"localhost"}, Until: time.Now().Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			files.Cert, files.Key = write("cert.pem", p.Cert), write("key.pem", p.Key)
		}
		k, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: files, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewLocalServer(t.Context(), silent, WithCredentials(k))
		if err == nil {
			stop(t, s)
		}
		if (err == nil) != fits || err != nil && (status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "troupe://task/local/0")) {
			t.Errorf("%v: %v", name, err)
		}
		k.Close()
	}
}
