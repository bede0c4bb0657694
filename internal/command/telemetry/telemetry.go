// Package telemetry exports traces as OpenTelemetry's environment variables ask for.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// stopTime bounds the export of the last spans.
const stopTime = 3 * time.Second

// Traces returns the provider that exports the process's spans, or nil if they are not exported. OTEL_TRACES_EXPORTER=otlp asks for it, and
// so does an endpoint for OTLP, unless OTEL_TRACES_EXPORTER or OTEL_SDK_DISABLED says otherwise. The other variables are those of
// OpenTelemetry's SDK and OTLP exporters. stop exports the last spans, in bounded time.
func Traces(ctx context.Context, version string, log *slog.Logger) (to trace.TracerProvider, stop func(), err error) {
	stop = func() {}
	if on, err := asked(); !on {
		return nil, stop, err
	}
	exporter, err := export(ctx)
	if err != nil {
		return nil, stop, fmt.Errorf("traces cannot be exported: %w", err)
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "troupe"), attribute.String("service.version", version), attribute.Int("process.pid", os.Getpid())),
		resource.WithFromEnv()) // which overrides the name
	if err != nil {
		return nil, stop, errors.Join(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not exported", "error", err) }))
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(r))
	return p, func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			log.Warn("the last traces were not exported", "error", err)
		}
	}, nil
}

// asked reports whether the environment asks for traces.
func asked() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch e := os.Getenv("OTEL_TRACES_EXPORTER"); e {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: otlp and none are known", e)
	}
}

// export returns the exporter for the protocol that the environment asks for.
func export(ctx context.Context) (sdk.SpanExporter, error) {
	switch p := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); p {
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: http/protobuf and grpc are known", p)
	}
}
