package telemetry

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sets environment variables, and unsets those of the tests' own environment.
func ask(t *testing.T, variables map[string]string) {
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(name, variables[name])
	}
}

// receive starts an OTLP receiver. The channel yields the names of its spans, with their service's name.
func receive(t *testing.T) (url string, spans chan string) {
	spans = make(chan string, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Error(err)
			}
		}
		text, err := io.ReadAll(body)
		m := &collectorpb.ExportTraceServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(text, m)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Error(r.URL.Path, err)
		}
		for _, of := range m.ResourceSpans {
			service := ""
			for _, a := range of.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					spans <- service + "/" + s.Name
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, spans
}

func TestSpansAreExported(t *testing.T) {
	url, spans := receive(t)
	ask(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": "mine"})
	p, stop, err := Traces(t.Context(), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer("test").Start(t.Context(), "work")
	span.End()
	stop() // it exports the span
	if got := <-spans; got != "mine/work" {
		t.Errorf("%s was exported", got)
	}
}

func TestSampler(t *testing.T) {
	ask(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"})
	p, stop, err := Traces(t.Context(), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, span := p.Tracer("test").Start(t.Context(), "work"); span.IsRecording() {
		t.Error("a span is recorded of a sampler that takes none")
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		variables map[string]string
		on        bool
		wrong     string
	}{
		"nothing":             {nil, false, ""},
		"none":                {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, false, ""},
		"disabled":            {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, false, ""},
		"gRPC":                {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		"an unknown exporter": {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, `"zipkin"`},
		"an unknown protocol": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, false, `"http/json"`},
	} {
		ask(t, c.variables)
		p, stop, err := Traces(t.Context(), "v1", slog.New(slog.DiscardHandler))
		if (p != nil) != c.on || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		stop()
	}
}
