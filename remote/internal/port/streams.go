package port

import (
	"context"

	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Detach is to be called by a method that runs on the goroutine which reads its client's connection
// (see Services.Inline), before it waits or computes for long.
func Detach(ctx context.Context) { http2.Detach(ctx) }

// OpenStream calls a streaming method of another task's port, such as /troupe.v1.Link/Bulk, on a
// connection of its own. ctx bounds the opening. The caller closes the stream.
func (p *Port) OpenStream(ctx context.Context, address, method string) (*http2.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := dial(ctx, p.config.Credentials, address, ProtoHTTP2)
	if err != nil {
		return nil, wire.ToGRPC(unreached(address, err))
	}
	return http2.Open(ctx, conn, schemeOf(p.config.Credentials), address, method)
}

// HandleStream serves a streaming method, also before Open: links are among what tells that the
// server starts. The stream and its connection end when serve returns, and the caller is told of
// its error.
func (s *Services) HandleStream(method string, serve func(ctx context.Context, stream *http2.Stream) error) {
	s.addMethod(method, &http2.Method{Stream: func(ctx context.Context, stream *http2.Stream) (err error) {
		defer s.recover(method, &err)
		return serve(ctx, stream)
	}})
}
