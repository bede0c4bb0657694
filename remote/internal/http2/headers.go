package http2

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// headerFields are the headers that have a meaning in HTTP/2 or gRPC, and the faults of a header list.
type headerFields struct {
	size        int
	pseudo      pseudoHeaders
	method      string // :method
	path        string
	status      string // :status
	contentType string
	length      int64 // content-length; -1 if there is none
	timeout     string
	encoding    string
	grpcStatus  string
	message     string
	authorized  string        // authorization
	trace       *traceHeaders // nil: there are none
	regular     bool          // a header other than a pseudo-header has come
	malformed   string        // why the list is malformed (RFC 9113, 8.1.1); "" if it is not
	fault       *streamError  // of the frame that the list began in; nil if there is none
}

// pseudoHeaders is a set of pseudo-headers.
type pseudoHeaders uint8

const (
	pseudoMethod pseudoHeaders = 1 << iota
	pseudoScheme
	pseudoPath
	pseudoAuthority
	pseudoStatus
)

// add records a header of a list. It is performance-critical: it runs for every header of every call.
func (f *headerFields) add(h *hpack.HeaderField) {
	if f.size += len(h.Name) + len(h.Value) + fieldOverhead; f.size > maxHeaderList {
		return
	}
	if !validValue(h.Value) {
		f.malformed = "a value with characters that values may not have"
	}
	var pseudo pseudoHeaders
	switch h.Name {
	case ":method":
		pseudo, f.method = pseudoMethod, h.Value
	case ":scheme":
		pseudo = pseudoScheme
	case ":path":
		pseudo, f.path = pseudoPath, h.Value
	case ":authority":
		pseudo = pseudoAuthority
	case ":status":
		pseudo, f.status = pseudoStatus, h.Value
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
	case "te", "user-agent", "grpc-accept-encoding", "accept-encoding":
		if h.Name == "te" && h.Value != "trailers" {
			f.malformed = "te other than trailers"
		}
	default:
		f.takeOther(h)
	}
	switch {
	case pseudo == 0:
		f.regular = true
	case f.regular:
		f.malformed = h.Name + " behind other headers"
	case f.pseudo&pseudo != 0:
		f.malformed = h.Name + " twice"
	}
	f.pseudo |= pseudo
}

// fieldOverhead is the size of a header in addition to its characters (RFC 7541, 4.1).
const fieldOverhead = 32

// takeOther records a header that gRPC clients rarely send.
func (f *headerFields) takeOther(h *hpack.HeaderField) {
	switch h.Name {
	case "content-length":
		n, err := strconv.ParseUint(h.Value, 10, 63)
		if err != nil || f.length >= 0 && f.length != int64(n) {
			f.malformed = "a wrong content-length"
		}
		f.length = int64(n)
	case "authorization":
		if f.authorized != "" {
			f.malformed = "authorization twice"
		}
		f.authorized = h.Value
	case "traceparent", "tracestate":
		if f.trace == nil {
			f.trace = &traceHeaders{}
		}
		f.trace.record(h.Name, h.Value)
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		f.malformed = h.Name + ", which is of a connection"
	default:
		if h.IsPseudo() {
			f.malformed = "an unknown pseudo-header"
		} else if !validName(h.Name) {
			f.malformed = "a name with characters that names may not have"
		}
	}
}

// validName reports whether s is a valid name of a header other than a pseudo-header.
func validName(s string) bool {
	for i := range len(s) {
		if b := s[i]; b <= ' ' || b >= 0x7f || b == ':' || 'A' <= b && b <= 'Z' {
			return false
		}
	}
	return s != ""
}

// validValue reports whether s is a valid value of a header. It accepts space at the ends, because gRPC allows clients to
// send it. It checks eight bytes at once, because it runs for every header of every call.
func validValue(s string) bool {
	var control uint64
	if len(s) >= 8 {
		for i := 8; i < len(s); i += 8 {
			control |= belowSpace(s[i-8 : i])
		}
		control |= belowSpace(s[len(s)-8:])
	} else {
		for i := range len(s) {
			if s[i] < ' ' {
				control = 1
			}
		}
	}
	return control == 0 || !strings.ContainsAny(s, "\x00\r\n")
}

// belowSpace returns a value other than 0 if one of the eight bytes of s is below the space.
func belowSpace(s string) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return (w - ' '*ones) &^ w & highs
}

// requestFault returns why the list does not begin a request, or "" if it does. A list that was too large is not known
// completely and not checked further.
func (f *headerFields) requestFault() string {
	need := pseudoMethod | pseudoScheme | pseudoPath
	if f.method == "CONNECT" {
		need = pseudoMethod | pseudoAuthority
	}
	switch {
	case f.malformed != "" || f.size > maxHeaderList:
		return f.malformed
	case f.pseudo&pseudoStatus != 0:
		return ":status in a request"
	case f.pseudo&need != need || f.pseudo&pseudoPath != 0 && f.path == "":
		return "a request without method, scheme or path"
	}
	return ""
}

// tooLarge returns the error for a call whose headers, or whose answer's headers, exceed maxHeaderList.
func (f *headerFields) tooLarge() error {
	return status.Errorf(codes.ResourceExhausted, "the call's headers take more than %d bytes", maxHeaderList)
}

// trailerFault returns why the list does not end a request, or "" if it does.
func (f *headerFields) trailerFault() string {
	if f.malformed == "" && f.pseudo != 0 {
		return "a pseudo-header among trailers"
	}
	return f.malformed
}

// isGRPC reports whether a content type is gRPC's, and not gRPC-Web's.
func isGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// parseTimeout parses a grpc-timeout: at most eight digits and a unit.
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

// trailer appends the headers that end a call to first.
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
	if b := details(err, st); len(b) > 0 {
		fields = append(fields, hpack.HeaderField{Name: "grpc-status-details-bin", Value: base64.RawStdEncoding.EncodeToString(b), Sensitive: true})
	}
	return fields
}

// Detailed is an error of a handler with details of a form of its own.
type Detailed interface {
	error
	// StatusDetails returns the contents of grpc-status-details-bin.
	StatusDetails() []byte
}

// details returns what an error says besides its code and text; nil for nothing.
func details(err error, st *status.Status) []byte {
	var own Detailed
	if errors.As(err, &own) {
		return own.StatusDetails()
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if b, err := proto.Marshal(p); err == nil {
			return b
		}
	}
	return nil
}

// outcome returns the error in a trailer, or nil if the call succeeded.
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

// escape encodes a message in gRPC's percent-encoding. Printable ASCII except for the percent sign
// is not changed.
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
