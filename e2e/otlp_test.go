//go:build unix

package e2e

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP receiver that keeps the spans by the name of the service that sent them.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string][]*tracepb.Span
}

// Export receives spans, over gRPC or from ServeHTTP.
func (c *collector) Export(_ context.Context, q *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range q.GetResourceSpans() {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			c.spans[service] = append(c.spans[service], scope.GetSpans()...)
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &collectorpb.ExportTraceServiceRequest{}
	err := func() error {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				return err
			}
			body = unzipped
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			return fmt.Errorf("%s of %s", r.URL.Path, r.Header.Get("Content-Type"))
		}
		if err = proto.Unmarshal(text, q); err != nil {
			return err
		}
		a, err := c.Export(r.Context(), q)
		if err != nil {
			return err
		}
		out, err := proto.Marshal(a)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, err = w.Write(out)
		return err
	}()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// named returns a service's span of a name whose parent is below; an empty below stands for any.
func (c *collector) named(service, name, below string) *tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans[service] {
		if s.GetName() == name && (below == "" || hex.EncodeToString(s.GetParentSpanId()) == below) {
			return s
		}
	}
	return nil
}

// TestTracesAreExported has two tasks export their spans with each of OTLP's protocols. The span of a part on the other task is a child of
// the master's span of that part, which is a child of the run, which is in the client's trace. Transfers are children of the span that
// receives them.
func TestTracesAreExported(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(strings.ReplaceAll(protocol, "/", "_"), func(t *testing.T) {
			receiver := &collector{spans: map[string][]*tracepb.Span{}}
			var endpoint string
			if protocol == "grpc" {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				server, ended := grpc.NewServer(), make(chan error, 1)
				collectorpb.RegisterTraceServiceServer(server, receiver)
				go func() { ended <- server.Serve(l) }()
				t.Cleanup(func() {
					server.Stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
				endpoint = "http://" + l.Addr().String()
			} else {
				server := httptest.NewServer(receiver)
				t.Cleanup(server.Close)
				endpoint = server.URL
			}
			c := declare(t, "ps=1,worker=1")
			c.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_BSP_SCHEDULE_DELAY=50",
				"OTEL_TRACES_SAMPLER=always_on"}
			for _, k := range c.tasks {
				k.env = []string{fmt.Sprintf("OTEL_SERVICE_NAME=%s_%d", k.job, k.index)}
			}
			c.startAll(t)

			s := op.NewScope()
			value := op.Const(s.WithDevice(onWorker).WithName("value"), float32(3))
			there := op.Neg(s.WithDevice(onPS).WithName("there"), op.Identity(s.WithDevice(onWorker), value))
			def, err := s.GraphDef()
			if err != nil {
				t.Fatal(err)
			}
			m, err := dial(c.task("worker", 0).addr)
			if err != nil {
				t.Fatal(err)
			}
			defer m.close()
			session, err := m.createSession(t.Context(), def)
			if err != nil {
				t.Fatal(err)
			}
			const trace, client, state = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
			traced := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-"+client+"-01", "tracestate", state)
			if _, err := m.runStep(traced, &corepb.RunStepRequest{SessionHandle: session, Fetch: []string{there.Name()}}); err != nil {
				t.Fatal(err)
			}
			if err := m.closeSession(t.Context(), session); err != nil {
				t.Fatal(err)
			}

			eventually(t, 10*time.Second, "the spans of both tasks", func() error {
				run := receiver.named("worker_0", "troupe.run", client)
				if run == nil {
					return fmt.Errorf("worker 0 has sent no run below the client's span: %v", receiver.names())
				}
				outer := receiver.named("worker_0", "troupe.part", hex.EncodeToString(run.GetSpanId()))
				if outer == nil {
					return fmt.Errorf("worker 0 has sent no part below its run: %v", receiver.names())
				}
				inner := receiver.named("ps_0", "troupe.part", hex.EncodeToString(outer.GetSpanId()))
				if inner == nil {
					return fmt.Errorf("ps 0 has sent no part below worker 0's: %v", receiver.names())
				}
				arrived, fetched := receiver.named("ps_0", "troupe.transfer", hex.EncodeToString(inner.GetSpanId())), receiver.named("worker_0", "troupe.transfer", hex.EncodeToString(run.GetSpanId()))
				if arrived == nil || fetched == nil {
					return fmt.Errorf("the transfers have no spans: %v", receiver.names())
				}
				for _, s := range []*tracepb.Span{run, outer, inner, arrived, fetched} {
					if s.GetTraceState() != state {
						t.Errorf("%s has the tracestate %q", s.GetName(), s.GetTraceState())
					}
					if hex.EncodeToString(s.GetTraceId()) != trace || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
						t.Fatalf("%v is not in the client's trace", s)
					}
				}
				return nil
			})
		})
	}
}

// names returns the names of the spans, by service.
func (c *collector) names() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string][]string{}
	for service, spans := range c.spans {
		for _, s := range spans {
			all[service] = append(all[service], s.GetName())
		}
	}
	return all
}
