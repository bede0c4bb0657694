package port

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	inService    = healthpb.HealthCheckResponse_SERVING
	outOfService = healthpb.HealthCheckResponse_NOT_SERVING
	unheardOf    = healthpb.HealthCheckResponse_SERVICE_UNKNOWN
)

func checkHealth(t *testing.T, c healthpb.HealthClient, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	a, err := c.Check(deadline(t), &healthpb.HealthCheckRequest{Service: service})
	if status.Code(err) == codes.NotFound {
		return unheardOf
	}
	if err != nil {
		t.Fatal(err)
	}
	return a.Status
}

func watchHealth(t *testing.T, ctx context.Context, c healthpb.HealthClient, service string) func(want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	w, err := c.Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if a, err := w.Recv(); err != nil || a.Status != want {
			t.Errorf("%q is %v, %v, want %v", service, a.GetStatus(), err, want)
		}
	}
}

func (h *healthService) watching() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watchers
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-limit.C:
			t.Fatal("not in time: " + what)
		case <-tick.C:
		}
	}
}

func TestHealth(t *testing.T) {
	from := listenTest(t, Config{})
	p, err := Listen(Config{Address: "127.0.0.1:0", Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	conn := dialTest(t, from, p.Addr())
	c := healthpb.NewHealthClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Before the server serves, and before it is open.
	if st := checkHealth(t, c, ""); st != outOfService {
		t.Error(st)
	}
	all, ofOne := watchHealth(t, ctx, c, ""), watchHealth(t, ctx, c, "test.Panicky")
	all(outOfService)
	ofOne(unheardOf)
	p.Services().Register(panicky)
	p.Services().Open()
	p.Services().Serving(true)
	all(inService)
	ofOne(inService)
	for service, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{"": inService, "test.Panicky": inService,
		"grpc.health.v1.Health": inService, "nobody": unheardOf, "test": unheardOf, "/": unheardOf} {
		if st := checkHealth(t, c, service); st != want {
			t.Errorf("%q is %v", service, st)
		}
	}
	list, err := c.List(deadline(t), &healthpb.HealthListRequest{})
	if err != nil || len(list.Statuses) != 3 || list.Statuses["test.Panicky"].GetStatus() != inService || list.Statuses[""].GetStatus() != inService {
		t.Errorf("%v, %v", list, err)
	}
	// Other calls continue on the same connection while Watch calls run.
	if err := conn.Invoke(deadline(t), "/test.Panicky/Unary", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	// A client that cancels ends its watch.
	given, give := context.WithCancel(ctx)
	watchHealth(t, given, c, "nobody")(unheardOf)
	if n := p.services.health.watching(); n != 3 {
		t.Errorf("%d watch", n)
	}
	give()
	eventually(t, "the watch ends", func() bool { return p.services.health.watching() == 2 })
	late, stop := context.WithTimeout(ctx, 30*time.Millisecond)
	defer stop()
	w, err := c.Watch(late, &healthpb.HealthCheckRequest{})
	if err == nil {
		for err == nil {
			_, err = w.Recv()
		}
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	p.Services().Serving(false)
	all(outOfService)
	ofOne(outOfService)
	if st := checkHealth(t, c, "test.Panicky"); st != outOfService {
		t.Error(st)
	}
	p.Services().Serving(true)
	all(inService)
	// Stop ends Watch calls, and does not wait for them.
	end, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := end.Recv(); err != nil || a.Status != inService {
		t.Fatalf("%v, %v", a, err)
	}
	began := time.Now()
	stopTest(t, p)
	if d := time.Since(began); d > 900*time.Millisecond {
		t.Errorf("the stop took %v", d)
	}
	if a, err := end.Recv(); err != nil || a.Status != outOfService {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := end.Recv(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if n := p.services.health.watching(); n != 0 {
		t.Errorf("%d watch", n)
	}
}

func TestWatchersAreBounded(t *testing.T) {
	from, p := listenTest(t, Config{}), listenTest(t, Config{})
	p.Services().Serving(true)
	c := healthpb.NewHealthClient(dialTest(t, from, p.Addr()))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var some []grpc.ServerStreamingClient[healthpb.HealthCheckResponse]
	for range maxWatchers {
		w, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		some = append(some, w)
	}
	for _, w := range some {
		if _, err := w.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	w, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = w.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	cancel()
	eventually(t, "all end", func() bool { return p.services.health.watching() == 0 })
}

// HTTP/1 requests are answered with a description of the server, whatever their method, and do not reach the gossip.
func TestHTTP1(t *testing.T) {
	config := testTLS(t)
	old := config.Clone()
	old.NextProtos = []string{"http/1.1"}
	plain, encrypted := listenTest(t, Config{}), listenTest(t, Config{Credentials: config})
	for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "DELETE", "TRACE", "CONNECT"} {
		for _, c := range []struct {
			to  *Port
			tls *tls.Config
		}{{plain, nil}, {encrypted, config.Config}, {encrypted, old}} {
			nc, err := net.Dial("tcp", c.to.Addr())
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if c.tls != nil {
				client := c.tls.Clone()
				client.ServerName = "127.0.0.1"
				nc = tls.Client(nc, client)
			}
			if _, err := io.WriteString(nc, method+" / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: method})
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			text, err := io.ReadAll(answer.Body)
			nc.Close()
			if err != nil || answer.StatusCode != http.StatusUpgradeRequired || method != "HEAD" && !strings.Contains(string(text), "grpc://"+c.to.Addr()) {
				t.Errorf("%s: %s %q, %v", method, answer.Status, text, err)
			}
		}
	}
	select {
	case c := <-plain.Streams():
		t.Errorf("gossip got a connection of %v", c.RemoteAddr())
	default:
	}
}

func TestNamesOfServices(t *testing.T) {
	s := newServices(silent, nil)
	s.Register(panicky)
	if names := s.names(); !slices.Equal(names, []string{"grpc.health.v1.Health", "test.Panicky"}) {
		t.Error(names)
	}
}
