package port

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2/http2test"
)

const checkMethod = "/grpc.health.v1.Health/Check"

// check asks the health service of a port for a service's status.
func check(ctx context.Context, p *Port, address, method, service string) error {
	var answer healthpb.HealthCheckResponse
	err := p.Call(ctx, address, method, &healthpb.HealthCheckRequest{Service: service}, &answer)
	if err == nil && answer.Status != healthpb.HealthCheckResponse_SERVING {
		return status.Internalf("the answer is %v", &answer)
	}
	return err
}

func TestCall(t *testing.T) {
	config := testTLS(t)
	plain, encrypted := listenTest(t, Config{}), listenTest(t, Config{Credentials: config})
	for _, p := range []*Port{plain, encrypted} {
		p.Services().Register(http2test.Describe(&healthpb.Health_ServiceDesc, health.NewServer()))
		p.Services().Open()
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, row := range []struct {
		what            string
		ctx             context.Context
		from            *Port
		address         string
		method, service string
		code            status.Code
		text            string
	}{
		{"plain", deadline(t), plain, plain.Addr(), checkMethod, "", status.OK, ""},
		{"encrypted", deadline(t), encrypted, encrypted.Addr(), checkMethod, "", status.OK, ""},
		{"an error of the method's", deadline(t), plain, plain.Addr(), checkMethod, "none", status.NotFound, "unknown service"},
		{"no such method", deadline(t), plain, plain.Addr(), "/none/None", "", status.Unimplemented, ""},
		{"plain to encrypted", deadline(t), plain, encrypted.Addr(), checkMethod, "", status.Unauthenticated, "troupe proxy"},
		{"encrypted to plain", deadline(t), encrypted, plain.Addr(), checkMethod, "", status.Unavailable, ""},
		{"nobody there", deadline(t), plain, gone.Addr().String(), checkMethod, "", status.Unavailable, "refused"},
		{"no answer", short, plain, mute.Addr().String(), checkMethod, "", status.DeadlineExceeded, ""},
	} {
		err := check(row.ctx, row.from, row.address, row.method, row.service)
		if status.CodeOf(err) != row.code || err != nil && !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s: %v", row.what, err)
		}
	}
}

// A process may open and close further ports while it calls others. Under the race detector, this detects a
// call that reads what the start of the remoting writes.
func TestCallWhilePortsStart(t *testing.T) {
	p := listenTest(t, Config{})
	p.Services().Register(http2test.Describe(&healthpb.Health_ServiceDesc, health.NewServer()))
	p.Services().Open()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 20 {
				further, err := Listen(Config{Address: "127.0.0.1:0", Logger: silent})
				if err != nil {
					t.Error(err)
					return
				}
				if err := check(deadline(t), further, p.Addr(), checkMethod, ""); err != nil {
					t.Error(err)
				}
				stopTest(t, further)
			}
		})
	}
	all.Wait()
}
