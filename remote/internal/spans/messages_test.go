package spans

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/actors/cast"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestMessagesBeginNoTraces checks that only messages Within a trace that is recorded have spans, even if everything else would be recorded.
func TestMessagesBeginNoTraces(t *testing.T) {
	m := Messages(sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample())))
	const ids = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for parent, spans := range map[string]bool{"": false, "x": false, ids + "00": false, ids + "01": true, ids + "01" + strings.Repeat("0", 100): false} {
		ctx, span := m.Handle(t.Context(), &cast.Trace{Parent: parent, State: "a=b"})
		if (span != nil) != spans {
			t.Errorf("%q: there is a span: %v", parent, span != nil)
		}
		of := m.Of(ctx)
		if (of != nil) != spans || spans && of.State != "a=b" {
			t.Errorf("%q: a message Within it belongs to %+v", parent, of)
		}
		if _, span := m.Ask(ctx); (span != nil) != spans {
			t.Errorf("%q: a request Within it has a span: %v", parent, span != nil)
		}
		if spans {
			span.End(nil)
			if id := trace.SpanContextFromContext(ctx).TraceID().String(); !strings.Contains(parent, id) {
				t.Errorf("%q: the span is of trace %s", parent, id)
			}
		}
	}
	if Messages(nil) != nil {
		t.Error("there is a tracer without a provider")
	}
}
