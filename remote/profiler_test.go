package remote

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/remote/access"
	pb "github.com/troupe-run/troupe/remote/internal/profiler/profilerpb"
	"github.com/troupe-run/troupe/remote/member"
)

// TestProfilesOfASecuredCluster checks that TensorFlow's profiler service is guarded like the port: callers without credentials are told
// so, callers that may not list are refused, and a certificate or a token with the right gets the profile of all tasks.
func TestProfilesOfASecuredCluster(t *testing.T) {
	a := newAuthority(t)
	var lines, shown []string
	for _, name := range []string{"alice", "carol"} {
		token, line, err := access.NewToken(name, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		lines, shown = append(lines, line), append(shown, token)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tokens"), []byte(strings.Join(lines, "\n")))
	tokens, err := access.LoadTokens(access.TokenConfig{File: filepath.Join(dir, "tokens"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	write(t, filepath.Join(dir, "policy.yaml"), []byte("rules:\n  - who: [client:alice, client:bob]\n    may: [list]\n  - who: client:carol\n    may: [open]\n"))
	policy, err := access.LoadPolicy(access.PolicyConfig{File: filepath.Join(dir, "policy.yaml"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(policy.Close)
	ps, worker := secured(t, a, func(c *Config) {
		c.Guard = access.NewGuard(tokens, policy, nil)
		c.Credentials = a.load(t, a.ca, access.TaskName(c.Job, 0), true, "127.0.0.1")
	})
	for deadline := time.Now().Add(20 * time.Second); slices.ContainsFunc(ps.Status(), func(s member.TaskStatus) bool { return s.State != "up" }); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("the tasks are %v", ps.Status())
		}
	}
	nameless, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: a.ca}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nameless.Close)

	over := func(k *access.Credentials) credentials.TransportCredentials {
		return credentials.NewTLS(k.Client("h2"))
	}
	for _, caller := range []struct {
		name, token string
		over        credentials.TransportCredentials
		code        codes.Code
		says        string
	}{
		{"without TLS", "", insecure.NewCredentials(), codes.Unauthenticated, "TLS"},
		{"with a token, but without TLS", shown[0], insecure.NewCredentials(), codes.Unauthenticated, "TLS"},
		{"without certificate and token", "", over(nameless), codes.PermissionDenied, "loopback may not list"},
		{"with a made-up token", "troupe_x", over(nameless), codes.Unauthenticated, "unknown or was withdrawn"},
		{"with a token, without the right", shown[1], over(nameless), codes.PermissionDenied, "client:carol may not list"},
		{"with a certificate, without the right", "", over(a.issue(t, access.ClientName("dave"))), codes.PermissionDenied, "client:dave may not list"},
		{"with a token", shown[0], over(nameless), codes.OK, ""},
		{"with a certificate", "", over(a.issue(t, access.ClientName("bob"))), codes.OK, ""},
	} {
		t.Run(caller.name, func(t *testing.T) {
			conn, err := grpc.NewClient("passthrough:///"+ps.Address(), grpc.WithTransportCredentials(caller.over), grpc.WithNoProxy())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if caller.token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+caller.token)
			}
			profile, monitor := &pb.ProfileResponse{}, &pb.MonitorResponse{}
			for _, call := range []struct {
				method string
				q, a   proto.Message
			}{
				{"Profile", &pb.ProfileRequest{DurationMs: 50}, profile},
				{"Monitor", &pb.MonitorRequest{DurationMs: 50}, monitor},
				{"Terminate", &pb.TerminateRequest{SessionId: "none"}, &pb.TerminateResponse{}},
			} {
				err := conn.Invoke(ctx, "/tensorflow.ProfilerService/"+call.method, call.q, call.a)
				if status.Code(err) != caller.code || err != nil && !strings.Contains(err.Error(), caller.says) {
					t.Errorf("%s: %v, want %v, %q", call.method, err, caller.code, caller.says)
				}
			}
			if caller.code != codes.OK {
				return
			}
			if n := len(profile.GetToolData()); n != 2 {
				t.Errorf("the profile has %d tasks", n)
			}
			for _, n := range []*Node{ps, worker} {
				if !strings.Contains(monitor.GetData(), n.Self().Name()+": busy ") {
					t.Errorf("the monitor tells nothing of %s: %s", n.Self().Name(), monitor.GetData())
				}
			}
		})
	}
}
