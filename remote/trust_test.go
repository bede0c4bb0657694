package remote

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// authority issues the certificates of a test.
type authority struct {
	*access.Authority
	dir string
	ca  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	made, pair, err := access.NewAuthority("test", time.Now().Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	a.Authority, a.ca = made, filepath.Join(a.dir, "ca.pem")
	write(t, a.ca, pair.Cert)
	return a
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue issues credentials with a certificate for name and hosts.
func (a *authority) issue(t *testing.T, name access.Name, hosts ...string) *access.Credentials {
	t.Helper()
	return a.issueTrusting(t, a.ca, name, hosts...)
}

// issueTrusting is issue for a holder that trusts another authority.
func (a *authority) issueTrusting(t *testing.T, ca string, name access.Name, hosts ...string) *access.Credentials {
	t.Helper()
	return a.load(t, ca, name, false, hosts...)
}

func (a *authority) load(t *testing.T, ca string, name access.Name, anonymous bool, hosts ...string) *access.Credentials {
	t.Helper()
	pair, err := a.Issue(access.Request{Name: name, Hosts: hosts, Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	write(t, cert, pair.Cert)
	write(t, key, pair.Key)
	k, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{Cert: cert, Key: key, CA: ca}, Anonymous: anonymous, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func secretFile(t *testing.T, fill string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))))
	return path
}

// secured returns the tasks /job:ps/task:0 and /job:worker/task:0 of a cluster with certificates of an authority. Tensors between them take
// the network.
func secured(t *testing.T, a *authority, change func(*Config)) (ps, worker *Node) {
	t.Helper()
	addresses := spectest.Addresses(t, 2)
	s, err := spec.New(map[string]map[int]string{"ps": {0: addresses[0]}, "worker": {0: addresses[1]}})
	if err != nil {
		t.Fatal(err)
	}
	secret := secretFile(t, "s")
	var nodes []*Node
	for _, task := range s.Tasks() {
		c := Config{Spec: s, Job: task.Job, NoLending: true, Log: quiet, SecretFile: secret, Credentials: a.issue(t, access.TaskName(task.Job, 0), "127.0.0.1")}
		if change != nil {
			change(&c)
		}
		n, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := n.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, n)
	}
	return nodes[0], nodes[1]
}

// addOver computes 1+2 with the sum on another task, through a client.
func addOver(ctx context.Context, target string, opts ...client.Option) error {
	c, err := client.Dial(ctx, target, opts...)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	g := there()
	for _, n := range g.Node {
		n.Device = strings.NewReplacer("/job:w/task:0", "/job:ps/task:0", "/job:w/task:1", "/job:worker/task:0").Replace(n.Device)
	}
	session, err := c.NewSession(ctx, g, nil)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	x, err := tensor.Zeros(tensor.Host, tensor.Float32, tensor.Shape{100_000})
	if err != nil {
		return err
	}
	defer x.Release()
	out, err := session.Run(ctx, map[string]*tensor.Tensor{"x:0": x}, []string{"same:0"}, nil)
	if err != nil {
		return err
	}
	for _, t := range out {
		t.Release()
	}
	return nil
}

// TestSecuredCluster checks that a cluster with certificates and a secret does all that one without does, and that its tasks gossip.
func TestSecuredCluster(t *testing.T) {
	a := newAuthority(t)
	ps, worker := secured(t, a, nil)
	alice := a.issue(t, access.ClientName("alice"))
	if err := addOver(t.Context(), ps.Target(), client.WithCredentials(alice)); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(20 * time.Second)
	for {
		m, _ := ps.Gossip().Member(worker.Self().Name())
		if m.Boot == worker.Boot() {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("gossip does not know of the other task: %+v", m)
		}
	}
}

// attempt is one thing to try on a task of a secured cluster.
type attempt struct {
	name string
	try  func(ctx context.Context, target *Node, as port.Credentials, who *wire.Identity) error
	// which roles succeed
	client, task bool
}

// attempts are the ways in: calls of each service, links, gossip.
var attempts = []attempt{
	{"open a session", func(ctx context.Context, n *Node, as port.Credentials, _ *wire.Identity) error {
		return port.Caller(nil, as)(ctx, n.Address(), "/tensorflow.MasterService/CreateSession", &corepb.CreateSessionRequest{}, &corepb.CreateSessionResponse{})
	}, true, true},
	{"reset", func(ctx context.Context, n *Node, as port.Credentials, _ *wire.Identity) error {
		return port.Caller(nil, as)(ctx, n.Address(), "/tensorflow.MasterService/Reset", &corepb.ResetRequest{}, &corepb.ResetResponse{})
	}, true, true},
	{"list devices", func(ctx context.Context, n *Node, as port.Credentials, _ *wire.Identity) error {
		return port.Caller(nil, as)(ctx, n.Address(), "/tensorflow.MasterService/ListDevices", &corepb.ListDevicesRequest{}, &corepb.ListDevicesResponse{})
	}, true, true},
	{"ask for the health", func(ctx context.Context, n *Node, as port.Credentials, _ *wire.Identity) error {
		return port.Caller(nil, as)(ctx, n.Address(), healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
	}, true, true},
	{"ask who is there", func(ctx context.Context, n *Node, as port.Credentials, _ *wire.Identity) error {
		_, err := link.Who(ctx, port.Caller(nil, as), n.Address())
		return err
	}, true, true},
	{"make it a guest", func(ctx context.Context, n *Node, as port.Credentials, who *wire.Identity) error {
		return port.Caller(nil, as)(ctx, n.Address(), wire.GuestLend, &wire.LendRequest{Cluster: 7, Spec: "a=127.0.0.1:1", Task: "/job:a/replica:0/task:0", Master: "/job:a/replica:0/task:0"}, &wire.LendReply{})
	}, false, false}, // nobody without the secret
}

// TestWhoGetsIn checks that callers without a certificate of the cluster's authority get the reason on each way in, and that callers with
// one get as far as it allows.
func TestWhoGetsIn(t *testing.T) {
	a, foreign := newAuthority(t), newAuthority(t)
	ps, worker := secured(t, a, nil)
	for _, who := range []struct {
		name   string
		as     *access.Credentials // nil: without TLS
		client bool
		task   bool
		code   status.Code // for those that get nowhere
	}{
		{"an outsider", nil, false, false, status.Unauthenticated},
		{"a client of another authority", foreign.issueTrusting(t, a.ca2(t, foreign), access.ClientName("alice")), false, false, status.Unavailable},
		{"a client", a.issue(t, access.ClientName("alice")), true, false, 0},
		{"the worker", a.issue(t, access.TaskName("worker", 0), "127.0.0.1"), true, true, 0},
	} {
		for _, at := range attempts {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := at.try(ctx, ps, member.CallWith(who.as), worker.Links().Identity())
			cancel()
			if want := who.client && at.client || who.task && at.task; want != (err == nil) {
				t.Errorf("%s tries to %s: %v", who.name, at.name, err)
			}
			if !who.client && status.CodeOf(err) != who.code {
				t.Errorf("%s tries to %s: %v: %v", who.name, at.name, status.CodeOf(err), err)
			}
		}
	}
	if err := addOver(t.Context(), ps.Target(), client.WithCredentials(a.issue(t, access.ClientName("bob")))); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// TestTokensOverTLS checks that clients with a token need no certificate. Callers with neither get the reason on each way in, and a
// client's token makes nobody a task.
func TestTokensOverTLS(t *testing.T) {
	a := newAuthority(t)
	token, line, err := access.NewToken("alice", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, []byte(line))
	tokens, err := access.LoadTokens(access.TokenConfig{File: path, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	ps, worker := secured(t, a, func(c *Config) {
		c.Guard = access.NewGuard(tokens, nil, nil)
		c.Credentials = a.load(t, a.ca, access.TaskName(c.Job, 0), true, "127.0.0.1")
	})
	nameless, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: a.ca}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nameless.Close)
	for _, at := range attempts {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := at.try(ctx, ps, member.CallWith(nameless), worker.Links().Identity())
		cancel()
		if harmless := at.name == "ask who is there" || at.name == "ask for the health"; (err == nil) != harmless || !harmless && status.CodeOf(err) != status.Unauthenticated {
			t.Errorf("somebody without certificate and token tries to %s: %v", at.name, err)
		}
	}
	own := filepath.Join(t.TempDir(), "token")
	write(t, own, []byte(token+"\n"))
	file, err := access.LoadTokenFile(own, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	for name, show := range map[string]client.Option{"text": client.WithToken(token), "file": client.WithTokenFile(file)} {
		if err := addOver(t.Context(), ps.Target(), client.WithCredentials(nameless), show); err != nil {
			t.Errorf("alice with her token as %s: %v", name, err)
		}
	}
	if err := addOver(t.Context(), ps.Target(), client.WithCredentials(nameless), client.WithToken("troupe_x")); status.CodeOf(err) != status.Unauthenticated {
		t.Errorf("a made-up token: %v", err)
	}
	if err := addOver(t.Context(), ps.Target(), client.WithCredentials(a.issue(t, access.ClientName("bob")))); err != nil {
		t.Errorf("bob with a certificate: %v", err)
	}
	// The next call, on the same connection, uses the token that replaces a withdrawn one.
	c, err := client.Dial(t.Context(), ps.Target(), client.WithCredentials(nameless), client.WithTokenFile(file))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	next, line, err := access.NewToken("alice", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, []byte(line))
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Devices(t.Context()); status.CodeOf(err) != status.Unauthenticated {
		t.Errorf("a token that was withdrawn: %v", err)
	}
	write(t, own, []byte(next))
	if err := file.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Devices(t.Context()); err != nil {
		t.Errorf("the new token: %v", err)
	}
}

// ca2 returns a file with this authority and another one, so that the clients of the other trust the server.
func (a *authority) ca2(t *testing.T, other *authority) string {
	t.Helper()
	own, err := os.ReadFile(a.ca)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(other.ca)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "both.pem")
	write(t, path, append(own, theirs...))
	return path
}

// TestTasksNeedTheirOwnCertificate checks that a certificate names its task: with the worker's nobody becomes the ps, neither by opening
// links nor by being at its address. Without the secret nobody becomes anything.
func TestTasksNeedTheirOwnCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		claim  access.Name
		hosts  []string
		secret string
		want   string
	}{
		"the worker's certificate":      {access.TaskName("worker", 0), []string{"127.0.0.1"}, "s", "troupe://task/worker/0"},
		"another task's":                {access.TaskName("ps", 1), []string{"127.0.0.1"}, "s", "troupe://task/ps/1"},
		"a certificate of another host": {access.TaskName("ps", 0), []string{"10.9.8.7"}, "s", "10.9.8.7"},
		"no secret":                     {access.TaskName("ps", 0), []string{"127.0.0.1"}, "t", "--secret-file"},
		"of the job":                    {access.JobName("ps"), []string{"127.0.0.1"}, "s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			ps, worker := secured(t, a, func(c2 *Config) {
				if c2.Job == "ps" {
					c2.Credentials = a.issue(t, c.claim, c.hosts...)
					c2.SecretFile = secretFile(t, c.secret)
				}
			})
			for from, to := range map[*Node]*Node{ps: worker, worker: ps} {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				_, err := from.Links().Ensure(ctx, to.Self().Name())
				cancel()
				switch {
				case c.want == "" && err != nil:
					t.Errorf("%v does not reach %v: %v", from.Self(), to.Self(), err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%v reaches %v, or is told something else: %v", from.Self(), to.Self(), err)
				}
			}
		})
	}
}

// TestClientsDoNotGossip checks that only tasks gossip.
func TestClientsDoNotGossip(t *testing.T) {
	a := newAuthority(t)
	ps, _ := secured(t, a, nil)
	for want, name := range map[bool]access.Name{false: access.ClientName("alice"), true: access.TaskName("worker", 0)} {
		config := a.issue(t, name, "127.0.0.1").Client("memberlist")
		c, err := tls.Dial("tcp", ps.Address(), withHost(config))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Write(make([]byte, 16))
		var b [1]byte
		if err == nil {
			err = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		}
		if err == nil {
			_, err = c.Read(b[:])
		}
		if open := os.IsTimeout(err); open && !want {
			t.Errorf("%v: the stream is open: %v", name, err)
		}
		if err := c.Close(); err != nil && want {
			t.Log(err) // the other end has closed first
		}
	}
}

func withHost(c *tls.Config) *tls.Config {
	c.ServerName = "127.0.0.1"
	return c
}

// TestCertificatesNeedASecret: certificates without a secret would leave gossip's packets unprotected.
func TestCertificatesNeedASecret(t *testing.T) {
	a := newAuthority(t)
	s, err := spec.Parse("worker=127.0.0.1:1,127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Listen(Config{Spec: s, Job: "worker", Log: quiet, Credentials: a.issue(t, access.TaskName("worker", 0), "127.0.0.1")})
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "--secret-file") {
		t.Error(err)
	}
}

// TestExposedServersSaySo checks that a server that others can reach, and that does not identify its callers, says so.
func TestExposedServersSaySo(t *testing.T) {
	a := newAuthority(t)
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"on the loopback interface": {func(*Config) {}, ""},
		"beyond it":                 {func(c *Config) { c.Bind = "0.0.0.0:0" }, "whoever reaches it may run any graph on it. "},
		"with a policy":             {func(c *Config) { c.Bind, c.Guard = "0.0.0.0:0", access.NewGuard(nil, nil, nil) }, ""},
		"meant so":                  {func(c *Config) { c.Bind, c.Files.Insecure = "0.0.0.0:0", true }, ""},
		"on a private network":      {func(c *Config) { c.Bind, c.Private = "0.0.0.0:0", true }, ""},
		"with certificates": {func(c *Config) {
			c.Bind, c.Credentials = "0.0.0.0:0", a.issue(t, access.TaskName("worker", 0), "127.0.0.1")
		}, ""},
	} {
		var logged strings.Builder
		config := Config{Spec: mustParse(t, "worker=127.0.0.1:0"), Job: "worker", Log: slog.New(slog.NewTextHandler(&logged, nil))}
		c.change(&config)
		n, err := Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		told := n.ClusterStatus(t.Context()).Exposed
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if !strings.Contains(told, c.want) || (c.want == "") != (told == "") || strings.Contains(logged.String(), "listens beyond") != (c.want != "") {
			t.Errorf("%s: %q, logged %s", name, told, &logged)
		}
	}
}

func mustParse(t *testing.T, text string) *spec.Spec {
	t.Helper()
	s, err := spec.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
