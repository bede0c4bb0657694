package wire

import (
	"context"

	"google.golang.org/grpc"
)

// The methods of troupe.v1.Guests.
const (
	GuestLend      = "/troupe.v1.Guests/Lend"
	GuestJoin      = "/troupe.v1.Guests/Join"
	GuestRenew     = "/troupe.v1.Guests/Renew"
	GuestLeave     = "/troupe.v1.Guests/Leave"
	GuestSupersede = "/troupe.v1.Guests/Supersede"
)

// GuestServer implements the service troupe.v1.Guests; see guest.proto.
type GuestServer interface {
	Lend(context.Context, *LendRequest) (*LendReply, error)
	Join(context.Context, *JoinRequest) (*GuestDone, error)
	Renew(context.Context, *RenewRequest) (*GuestDone, error)
	Leave(context.Context, *LeaveRequest) (*GuestDone, error)
	Supersede(context.Context, *SupersedeRequest) (*GuestDone, error)
}

// RegisterGuests adds the service troupe.v1.Guests to a port's services.
func RegisterGuests(services grpc.ServiceRegistrar, server GuestServer) {
	services.RegisterService(&grpc.ServiceDesc{
		ServiceName: "troupe.v1.Guests",
		HandlerType: (*GuestServer)(nil),
		Methods: []grpc.MethodDesc{
			guestMethod("Lend", GuestServer.Lend),
			guestMethod("Join", GuestServer.Join),
			guestMethod("Renew", GuestServer.Renew),
			guestMethod("Leave", GuestServer.Leave),
			guestMethod("Supersede", GuestServer.Supersede),
		},
		Metadata: "remote/internal/wire/guest.proto",
	}, server)
}

func guestMethod[Q, A any](name string, call func(GuestServer, context.Context, *Q) (*A, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		q := new(Q)
		if err := decode(q); err != nil {
			return nil, err
		}
		a, err := call(server.(GuestServer), ctx, q)
		if err != nil {
			return nil, ToGRPC(err)
		}
		return a, nil
	}}
}
