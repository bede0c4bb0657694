//go:build unix

package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// summing is a kind of actors that add up the numbers that they are sent, and answer Empty with the sum. The texts "fail", "stop" and "panic"
// make them do that; BoolValue is kept.
func summing() troupe.Option {
	return troupe.WithActor("counter", func(_ *troupe.ActorContext, arguments any) (troupe.Actor, error) {
		var sum int64
		if start, ok := arguments.(*wrapperspb.Int64Value); ok {
			sum = start.Value
		}
		return troupe.Handlers(
			troupe.Handle(func(_ *troupe.ActorContext, m *wrapperspb.Int64Value) { sum += m.Value }),
			troupe.Handle(func(c *troupe.ActorContext, _ *emptypb.Empty) { _ = c.Reply(wrapperspb.Int64(sum)) }), // the caller sees a missing answer
			troupe.Handle(func(c *troupe.ActorContext, _ *wrapperspb.BoolValue) { c.Keep() }),
			troupe.Handle(func(c *troupe.ActorContext, m *wrapperspb.StringValue) {
				switch m.Value {
				case "stop":
					c.Stop()
				case "panic":
					panic("as it was told")
				case "fail":
					_ = c.Fail(status.Errorf(status.OutOfRange, "no such text")) // likewise
				case "text", "flag", "number", "bytes": // answers with a value of that type
					_ = c.Reply(map[string]any{"text": "Hällo", "flag": true, "number": -1.5, "bytes": []byte{0, 255}}[m.Value])
				}
			}),
		), nil
	})
}

// serveActors starts a server with actors of the kind "counter" in this process.
func serveActors(t testing.TB, cluster troupe.ClusterSpec, job string, task int, opts ...troupe.Option) *troupe.Server {
	t.Helper()
	s, err := troupe.NewServer(t.Context(), cluster, append(opts, troupe.WithJob(job), troupe.WithTask(task), summing(), troupe.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(20*time.Second))
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// clusterWithActors starts a ps and two workers with actors, and returns the target of the ps.
func clusterWithActors(t testing.TB) string {
	t.Helper()
	addresses := spectest.Addresses(t, 3)
	cluster := troupe.ClusterSpec{"ps": addresses[:1], "worker": addresses[1:]}
	for i := range addresses[1:] {
		serveActors(t, cluster, "worker", i)
	}
	return serveActors(t, cluster, "ps", 0).Target()
}

// withActors starts what python/tests/test_actors.py needs, and returns the environment that says where it is.
func withActors(t *testing.T) string {
	t.Helper()
	target, address := clusterWithActors(t), spectest.Address(t)
	dir := t.TempDir()
	certs := func(name string) string { return filepath.Join(dir, "certs", name) }
	if out, err := exec.Command(binary(t), "certs", "init", "--cluster", "ps="+address, "--out", certs(""), "--client", "alice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	token, line, err := access.NewToken("bob", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	eve, other, err := access.NewToken("eve", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tokens": line + "\n" + other, "policy.yaml": "rules:\n  - {who: [\"client:alice\", \"client:bob\"], may: actors}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	credentials, err := access.LoadCredentials(access.CredentialConfig{Anonymous: true,
		CredentialFiles: access.CredentialFiles{Cert: certs("ps-0.pem"), Key: certs("ps-0-key.pem"), CA: certs("ca.pem")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(credentials.Close)
	tokens, err := access.LoadTokens(access.TokenConfig{File: filepath.Join(dir, "tokens")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	policy, err := access.LoadPolicy(access.PolicyConfig{File: filepath.Join(dir, "policy.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(policy.Close)
	secured := serveActors(t, troupe.ClusterSpec{"ps": {address}}, "ps", 0, troupe.WithCredentials(credentials), troupe.WithTokens(tokens), troupe.WithPolicy(policy))

	b, err := json.Marshal(map[string]any{"target": target, "descriptor": actorsDescriptor(t), "secured": map[string]string{
		"target": secured.Target(), "ca": certs("ca.pem"), "token": strings.TrimSpace(token), "eve": strings.TrimSpace(eve),
		"cert": certs("client-alice.pem"), "key": certs("client-alice-key.pem")}})
	if err != nil {
		t.Fatal(err)
	}
	return "TROUPE_TEST_ACTORS=" + string(b)
}

// actorsDescriptor returns the FileDescriptorProto of the service for clients of actors, in hexadecimal digits.
func actorsDescriptor(t *testing.T) string {
	t.Helper()
	var found protoreflect.FileDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("troupe.program.v1", func(f protoreflect.FileDescriptor) bool {
		found = f
		return false
	})
	if found == nil {
		t.Fatal("the program has no messages of troupe.program.v1")
	}
	b, err := proto.Marshal(protodesc.ToFileDescriptorProto(found))
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b)
}
