package wire

import (
	"context"

	"github.com/troupe-run/troupe/remote/internal/http2"
)

// Unary returns the handler of a method. admit rejects callers, and returns the context in which a call is answered; nil is for methods that authorize
// their callers themselves. Errors are those of graph/status.
func Unary[Q, A any](admit func(context.Context) (context.Context, error), answer func(context.Context, *Q) (*A, error)) http2.Handler {
	return UnaryOf(func() *Q { return new(Q) }, admit, answer)
}

// UnaryOf is Unary for requests that request makes.
func UnaryOf[Q, A any](request func() *Q, admit func(context.Context) (context.Context, error), answer func(context.Context, *Q) (*A, error)) http2.Handler {
	return func(ctx context.Context, read func(any) error) (any, error) {
		q := request()
		if err := read(q); err != nil {
			return nil, err
		}
		if admit != nil {
			var err error
			if ctx, err = admit(ctx); err != nil {
				return nil, ToGRPC(err)
			}
		}
		a, err := answer(ctx, q)
		if err != nil {
			return nil, ToGRPC(err)
		}
		return a, nil
	}
}
