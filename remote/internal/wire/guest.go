package wire

import (
	"context"

	"github.com/troupe-run/troupe/remote/internal/http2"
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
func RegisterGuests(services http2.Registrar, server GuestServer) {
	services.Register(http2.Service{Name: "troupe.v1.Guests", Methods: map[string]http2.Handler{
		"Lend":      Unary(nil, server.Lend),
		"Join":      Unary(nil, server.Join),
		"Renew":     Unary(nil, server.Renew),
		"Leave":     Unary(nil, server.Leave),
		"Supersede": Unary(nil, server.Supersede),
	}})
}
