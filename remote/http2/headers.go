package http2

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// headerFields are the headers that gRPC gives a meaning.
type headerFields struct {
	size        int
	method      string // :method
	path        string
	status      string // :status
	contentType string
	timeout     string
	encoding    string
	grpcStatus  string
	message     string
}

// take notes a header of a list.
func (f *headerFields) take(h hpack.HeaderField) {
	if f.size += int(h.Size()); f.size > maxHeaderList {
		return
	}
	switch h.Name {
	case ":method":
		f.method = h.Value
	case ":path":
		f.path = h.Value
	case ":status":
		f.status = h.Value
	case "content-type":
		f.contentType = h.Value
	case "grpc-timeout":
		f.timeout = h.Value
	case "grpc-encoding":
		f.encoding = h.Value
	case "grpc-status":
		f.grpcStatus = h.Value
	case "grpc-message":
		f.message = h.Value
	}
}

// parseTimeout reads a grpc-timeout: at most eight digits and a unit.
func parseTimeout(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	var unit time.Duration
	switch s[len(s)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil {
		return 0, false
	}
	const maxTime = 1 << 62
	if n > uint64(maxTime/unit) {
		return maxTime, true
	}
	return time.Duration(n) * unit, true
}

var (
	fieldOK       = hpack.HeaderField{Name: ":status", Value: "200"}
	fieldGRPC     = hpack.HeaderField{Name: "content-type", Value: "application/grpc"}
	fieldAccept   = hpack.HeaderField{Name: "grpc-accept-encoding", Value: "identity,deflate,gzip"}
	fieldFinished = hpack.HeaderField{Name: "grpc-status", Value: "0"}
)

// trailer gives the headers that tell a call's end, after those that begin the answer.
func trailer(err error, first ...hpack.HeaderField) []hpack.HeaderField {
	if err == nil {
		return append(first, fieldFinished)
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	fields := append(first, hpack.HeaderField{Name: "grpc-status", Value: strconv.Itoa(int(st.Code()))},
		hpack.HeaderField{Name: "grpc-message", Value: escape(st.Message()), Sensitive: true})
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if b, err := proto.Marshal(p); err == nil {
			fields = append(fields, hpack.HeaderField{Name: "grpc-status-details-bin", Value: base64.RawStdEncoding.EncodeToString(b), Sensitive: true})
		}
	}
	return fields
}

// outcome is the error that a trailer tells of.
func (f *headerFields) outcome() error {
	if f.grpcStatus == "" {
		return status.Errorf(codes.Unknown, "the call ended without a status (HTTP status %q)", f.status)
	}
	code, err := strconv.ParseUint(f.grpcStatus, 10, 32)
	switch {
	case err != nil:
		return status.Errorf(codes.Unknown, "the call ended with status %q", f.grpcStatus)
	case code == 0:
		return nil
	}
	return status.Error(codes.Code(code), unescape(f.message))
}

const hexDigits = "0123456789ABCDEF"

// escape writes a message as gRPC's percent-encoding: printable ASCII but for the percent sign
// stays as it is.
func escape(s string) string {
	plain := func(b byte) bool { return b >= ' ' && b <= '~' && b != '%' }
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	var out strings.Builder
	for i := range len(s) {
		if b := s[i]; plain(b) {
			out.WriteByte(b)
		} else {
			out.WriteByte('%')
			out.WriteByte(hexDigits[b>>4])
			out.WriteByte(hexDigits[b&15])
		}
	}
	return out.String()
}

func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(b))
				i += 2
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
