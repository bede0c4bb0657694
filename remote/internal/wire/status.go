package wire

import (
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/graph/status"
)

// maxText is the length in bytes to which an error's text is truncated: gRPC's C implementation
// rejects a call whose metadata exceeds 8 KiB, including percent-encoding.
const maxText = 3072

const cut = " ... [truncated]"

// ToGRPC converts err to a gRPC error with the same code number. It returns nil for nil.
func ToGRPC(err error) error {
	if err == nil {
		return nil
	}
	e := status.From(err)
	return grpcstatus.Error(codes.Code(e.Code), CutKeeping(e.Message, ""))
}

// CutKeeping returns an error's text cut to the length that ToGRPC leaves uncut. A line that must not be lost, which is much shorter, then
// follows the rest.
func CutKeeping(text, line string) string {
	if len(text) <= maxText {
		return text
	}
	end := cut
	if line != "" {
		end += "\n" + line
	}
	return strings.ToValidUTF8(text[:maxText-len(end)], "") + end
}

// FromGRPC converts the error of a gRPC call to a status error. It returns nil for nil.
func FromGRPC(err error) error {
	if err == nil {
		return nil
	}
	return status.From(err)
}
