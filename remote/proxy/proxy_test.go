package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/proxy"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// connectEnv makes the test binary a program that connects to an address and says how long that lasts.
const connectEnv = "TROUPE_TEST_CONNECT"

func TestMain(m *testing.M) {
	if address := os.Getenv(connectEnv); address != "" {
		connect(address)
		return
	}
	goleak.VerifyTestMain(m)
}

// connect tells whether the other end closes the connection at once.
func connect(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		fmt.Println(err)
	}
	if _, err := c.Read(make([]byte, 1)); os.IsTimeout(err) {
		fmt.Println("carried")
		return
	}
	fmt.Println("refused")
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// identities are the credentials of a server and of a client.
func identities(t *testing.T) (server, alice *access.Credentials) {
	t.Helper()
	a, ca, err := access.NewAuthority("test", time.Now().Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := write("ca.pem", ca.Cert)
	load := func(file string, name access.Name) *access.Credentials {
		p, err := a.Issue(access.Request{Name: name, Hosts: []string{"127.0.0.1"}, Until: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		k, err := access.LoadCredentials(access.CredentialConfig{Log: quiet,
			CredentialFiles: access.CredentialFiles{Cert: write(file, p.Cert), Key: write(file+"-key", p.Key), CA: authority}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		return k
	}
	return load("server", access.TaskName("worker", 0)), load("alice", access.ClientName("alice"))
}

func listen(t *testing.T, c proxy.Config) *proxy.Proxy {
	t.Helper()
	c.Log = quiet
	p, err := proxy.Listen(t.Context(), "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// double runs x+x with n elements on the server at an address.
func double(ctx context.Context, address string, n int64) (sum float32, err error) {
	c, err := client.Dial(ctx, "grpc://"+address)
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32)
	y := op.Add(s, x, x)
	g, err := s.GraphDef()
	if err != nil {
		return 0, err
	}
	session, err := c.NewSession(ctx, g, nil)
	if err != nil {
		return 0, err
	}
	defer session.Close(ctx)
	values := make([]float32, n)
	values[n-1] = 21
	fed, err := tensor.FromSlice(tensor.Float32, tensor.Shape{n}, values)
	if err != nil {
		return 0, err
	}
	defer fed.Release()
	out, err := session.Run(ctx, map[string]*tensor.Tensor{x.Name(): fed}, []string{y.Name()}, nil)
	if err != nil {
		return 0, err
	}
	defer out[0].Release()
	return tensor.Of[float32](out[0])[n-1], nil
}

// A client without TLS runs steps on a server that demands it, and tensors of any size pass.
func TestCarries(t *testing.T) {
	server, alice := identities(t)
	s, err := spec.New(map[string]map[int]string{"worker": {0: spectest.Addresses(t, 1)[0]}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := remote.Start(t.Context(), remote.Config{Spec: s, Job: "worker", Credentials: server, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := listen(t, proxy.Config{Target: n.Address(), Credentials: alice})
	for _, size := range []int64{1, 1000, 10_000_000} {
		if got, err := double(t.Context(), p.Address().String(), size); err != nil || got != 42 {
			t.Errorf("%d elements: %v, %v", size, got, err)
		}
	}
	if _, err := double(t.Context(), n.Address(), 1); status.CodeOf(err) != status.Unauthenticated {
		t.Errorf("without the proxy: %v", err)
	}
}

// Where no server can be reached, the client is told by the proxy, and at once.
func TestTellsWhyNot(t *testing.T) {
	_, alice := identities(t)
	gone := spectest.Addresses(t, 1)[0]
	other, _ := identities(t)
	s, err := spec.New(map[string]map[int]string{"worker": {0: spectest.Addresses(t, 1)[0]}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := remote.Start(t.Context(), remote.Config{Spec: s, Job: "worker", Credentials: other, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Stop(context.Background())
	for name, c := range map[string]struct{ target, want string }{
		"nobody":               {gone, "connection refused"},
		"of another authority": {foreign.Address(), "certificate"},
	} {
		began := time.Now()
		_, err := double(t.Context(), listen(t, proxy.Config{Target: c.target, Credentials: alice}).Address().String(), 1)
		if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "could not reach "+c.target) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%s: it took %v", name, d)
		}
	}
}

// Close ends what is being carried.
func TestClose(t *testing.T) {
	_, alice := identities(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	p, err := proxy.Listen(t.Context(), "127.0.0.1:0", proxy.Config{Target: mute.Addr().String(), Credentials: alice, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	held, err := mute.Accept()
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		t.Error("the connection is open")
	}
}
