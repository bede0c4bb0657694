package troupe

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// networkAddress is an address of this machine beyond the loopback interface.
func networkAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback's")
	return ""
}

// readFileAt runs ReadFile on a task, in a session of a client that dials an address.
func readFileAt(t *testing.T, target, device, name string) (string, error) {
	t.Helper()
	c, err := Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s := op.NewScope().WithDevice(device)
	content := op.ReadFile(s, op.Const(s, name))
	session := sessionOf(t, c, s)
	got, err := session.Run(t.Context(), nil, []string{content.Name()}, nil)
	if err != nil {
		return "", err
	}
	defer got[0].Release()
	return tensor.To[string](got[0])
}

// TestFilesOfClientsOverANetwork has clients come over the loopback interface and over another one, to a cluster of two
// tasks of which the first is their master.
func TestFilesOfClientsOverANetwork(t *testing.T) {
	parallel(t)
	host := networkAddress(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		options        []Option
		network, local bool // allowed
	}{
		{"without flags", nil, false, true},
		{"files", []Option{WithFiles(dir)}, true, true},
		{"other files", []Option{WithFiles(t.TempDir())}, false, false},
		{"insecure", []Option{WithInsecure(true)}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addresses := spectest.WildcardAddresses(t, host, 2)
			cluster := ClusterSpec{"worker": addresses}
			for task, address := range addresses {
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					t.Fatal(err)
				}
				s, err := NewServer(t.Context(), cluster, append([]Option{silent, WithTask(task), WithBind(net.JoinHostPort("0.0.0.0", port))}, c.options...)...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { stop(t, s) })
			}
			_, port, _ := net.SplitHostPort(addresses[0])
			for _, device := range []string{"/job:worker/task:0", "/job:worker/task:1"} {
				for target, allowed := range map[string]bool{addresses[0]: c.network, "127.0.0.1:" + port: c.local} {
					got, err := readFileAt(t, "grpc://"+target, device, name)
					switch {
					case allowed && (err != nil || got != "content"):
						t.Errorf("%s over %s: %q, %v", device, target, got, err)
					case !allowed && (status.CodeOf(err) != status.PermissionDenied || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--files")):
						t.Errorf("%s over %s: %q, %v", device, target, got, err)
					}
				}
			}
		})
	}
}

// TestFilesThatCannotBeOpened checks that a server does not start with a folder that does not exist.
func TestFilesThatCannotBeOpened(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := NewLocalServer(t.Context(), silent, WithFiles(missing))
	if status.CodeOf(err) != status.NotFound || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}
