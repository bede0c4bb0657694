package wire

import (
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/graph/status"
)

// maxText is the length in bytes to which an error's text is cut: gRPC's C implementation
// turns a call away whose metadata takes more than 8 KiB, percent-encoding included.
const maxText = 3072

const cut = " ... [truncated]"

// ToGRPC makes a gRPC error of err. Its code is the same number. nil stays nil.
func ToGRPC(err error) error {
	if err == nil {
		return nil
	}
	e := status.From(err)
	text := e.Message
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText-len(cut)], "") + cut
	}
	return grpcstatus.Error(codes.Code(e.Code), text)
}

// FromGRPC makes a status error of one that a gRPC call returned. nil stays nil.
func FromGRPC(err error) error {
	if err == nil {
		return nil
	}
	return status.From(err)
}
