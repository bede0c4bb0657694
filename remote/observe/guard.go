package observe

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
)

// probe reports whether a path is a health check. Those are open to everybody under any name: they reveal next to nothing, and their
// callers have no credentials.
func probe(path string) bool { return path == "/healthz" || path == "/readyz" }

// protected refuses requests that a page of another site can make a browser send, and sets headers that make browsers protect the answers.
func (h *handler) protected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead && !h.isAct(r):
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "the path is only read: GET and HEAD are its methods", http.StatusMethodNotAllowed)
		case !probe(r.URL.Path) && !h.named(r.Host):
			http.Error(w, "the endpoint does not answer under the name "+quoted(r.Host)+": call it by its address, or start the server with --http-host", http.StatusMisdirectedRequest)
		case foreign(r):
			http.Error(w, "requests from pages of other sites are refused", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// named reports whether a Host header is the endpoint's. A page that makes its own name resolve to this machine cannot send an address or
// one of the known names.
func (h *handler) named(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return h.hosts[name]
}

// hostName returns the host of a host:port or a host, in lower case and without brackets.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// foreign reports whether a page of another origin made a browser send the request. Following a link to a page is allowed, but not with a
// form.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		_, host, ok := strings.Cut(origin, "://")
		return !ok || !strings.EqualFold(host, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Method == http.MethodPost || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// guarded admits only callers that may do an action.
func (h *handler) guarded(a access.Action, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rights, err := h.may(r, a)
		if err != nil {
			h.refuse(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(access.WithRights(r.Context(), rights)))
	})
}

// may returns the rights of a caller that may do an action, or UNAUTHENTICATED or PERMISSION_DENIED.
func (h *handler) may(r *http.Request, a access.Action) (*access.Rights, error) {
	rights, err := h.rights(r)
	if err != nil {
		return nil, err
	}
	if err = rights.May(a); err != nil {
		h.config.Guard.Record(access.Event{What: a.String(), Who: rights.Who(), From: peerOf(r).From(), Refused: err})
	}
	return rights, err
}

// rights returns the caller's rights, or UNAUTHENTICATED. Only a guard restricts them.
func (h *handler) rights(r *http.Request) (*access.Rights, error) {
	peer := peerOf(r)
	if h.config.open() {
		return access.Unrestricted(identity(peer)), nil
	}
	if k := h.config.Credentials; k != nil {
		if r.TLS == nil { // not behind a listener of Listen
			return nil, status.Internalf("the endpoint has certificates, and the connection is not encrypted")
		}
		if len(r.TLS.PeerCertificates) == 0 && peer.Authorization == "" {
			return nil, status.Errorf(status.Unauthenticated, "the endpoint wants a client's certificate or a token")
		}
		// The connection may be older than the currently trusted authorities.
		forget, err := k.Watch(noCloser{}, *r.TLS)
		forget()
		if err != nil {
			return nil, err
		}
	}
	if h.config.Guard == nil {
		who, err := access.Identify(peer, nil)
		return access.Unrestricted(who), err
	}
	return h.config.Guard.Admit(0, peer)
}

// noCloser stands for a connection that is watched only briefly.
type noCloser struct{}

func (noCloser) Close() error { return nil }

// peerOf returns the caller.
func peerOf(r *http.Request) access.Peer {
	p := access.Peer{TLS: r.TLS, Address: &net.TCPAddr{}, Authorization: authorization(r.Header.Get("Authorization"))}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		p.Address = net.TCPAddrFromAddrPort(at)
	}
	return p
}

// authorization returns the Authorization header; the password of a browser's user becomes the token.
func authorization(header string) string {
	scheme, text, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "basic") {
		return header
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return header // which is refused
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return "Bearer " + password
}

// refuse answers with the reason why a caller is not admitted.
func (h *handler) refuse(w http.ResponseWriter, err error) {
	code := http.StatusForbidden
	switch status.CodeOf(err) {
	case status.Unauthenticated:
		code = http.StatusUnauthorized
		w.Header().Add("WWW-Authenticate", `Bearer realm="troupe"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="troupe: any name, and a token as the password", charset="UTF-8"`)
	case status.Internal:
		code = http.StatusInternalServerError
	}
	http.Error(w, status.From(err).Message, code)
}
