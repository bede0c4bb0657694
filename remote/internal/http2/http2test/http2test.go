// Package http2test helps tests that serve the same with gRPC's own server.
package http2test

import (
	"context"

	"github.com/troupe-run/troupe/remote/internal/http2"
	"google.golang.org/grpc"
)

// Server adds services to gRPC's own server.
type Server struct{ *grpc.Server }

var _ http2.Registrar = Server{}

// Register adds a service.
func (s Server) Register(service http2.Service) {
	d := &grpc.ServiceDesc{ServiceName: service.Name, HandlerType: (*any)(nil)}
	for name, answer := range service.Methods {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: name,
			Handler: func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return answer(ctx, read)
			}})
	}
	s.RegisterService(d, nil)
}

// Describe returns a service that gRPC's own code describes.
func Describe(d *grpc.ServiceDesc, impl any) http2.Service {
	all := http2.Service{Name: d.ServiceName, Methods: map[string]http2.Handler{}}
	for _, m := range d.Methods {
		all.Methods[m.MethodName] = func(ctx context.Context, read func(any) error) (any, error) { return m.Handler(impl, ctx, read, nil) }
	}
	return all
}
