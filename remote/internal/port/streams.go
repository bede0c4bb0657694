package port

import (
	"context"

	"github.com/troupe-run/troupe/remote/internal/http2"
)

// Detach must be called by a method that runs on the goroutine that reads its client's connection
// (see Services.Inline), before it blocks or computes for long.
func Detach(ctx context.Context) { http2.Detach(ctx) }

// DetachUntilCancel is Detach for work that must end when the client cancels the call or its connection ends. cancelled is then called before
// anything that the client sent later is read; it must not block. stop withdraws it, unless it has begun.
func DetachUntilCancel(ctx context.Context, cancelled func()) (stop func()) {
	stop = http2.OnCancel(ctx, cancelled) // before another goroutine can read the cancellation
	http2.Detach(ctx)
	return stop
}

// OpenStream calls a streaming method of another task's port, such as /troupe.v1.Link/Bulk, on a
// dedicated connection. ctx bounds the opening. The caller must close the stream.
func (p *Port) OpenStream(ctx context.Context, address, method string) (*http2.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := p.dialer().dial(ctx, address, ProtoHTTP2)
	if err != nil {
		return nil, unreached(address, err)
	}
	return http2.Open(ctx, conn, schemeOf(p.config.Credentials), address, method)
}

// HandleStream serves a streaming method, even before Open: other tasks learn over links that the
// server is starting. The stream and its connection end when serve returns, and its error is sent to
// the caller.
func (s *Services) HandleStream(method string, serve func(ctx context.Context, stream *http2.Stream) error) {
	s.addMethod(method, &http2.Method{Stream: func(ctx context.Context, stream *http2.Stream) (err error) {
		defer s.recover(method, &err)
		return serve(ctx, stream)
	}})
}

// HandleServerStream serves a method whose calls are answered with any number of messages, once the services are open. read fills the
// request; send waits until the client's flow control admits the message, and fails if the call is over.
func (s *Services) HandleServerStream(method string, serve func(ctx context.Context, read, send func(any) error) error) {
	s.addMethod(method, &http2.Method{ServerStream: func(ctx context.Context, read func(any) error, send func(any) error) (err error) {
		defer s.recover(method, &err)
		if err := s.admitted(ctx, method); err != nil {
			return err
		}
		return serve(ctx, read, send)
	}})
}

// HandleBidi serves a method whose calls have any number of messages in both directions, once the services are open. recv waits for the
// client's next message and fills it; after the last one it returns io.EOF. send waits until the client's flow control admits the message. Both
// fail if the call is over: ctx ends when the client resets it, its deadline passes, or the connection ends. While serve does not receive, flow
// control stops the client's messages of this call only. recv and send may be called concurrently, each by one goroutine at a time. When the
// port stops, recv returns UNAVAILABLE after the messages that have arrived; serve must then return.
func (s *Services) HandleBidi(method string, serve func(ctx context.Context, recv, send func(any) error) error) {
	s.addMethod(method, &http2.Method{Bidi: func(ctx context.Context, recv, send func(any) error) (err error) {
		defer s.recover(method, &err)
		if err := s.admitted(ctx, method); err != nil {
			return err
		}
		return serve(ctx, recv, send)
	}})
}
