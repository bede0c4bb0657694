package port

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// The connections of the actor library's remoting belong to its own gRPC server. They are told from
// all others by their first byte, or with TLS by their protocol.
const (
	remotingMark  = 'R'
	protoRemoting = "troupe-remoting"
)

// remotingCreds are the credentials by which the remoting dials other ports.
type remotingCreds struct {
	credentials.TransportCredentials
	tls *tls.Config // nil for plain connections
}

func newRemotingCreds(config *tls.Config) credentials.TransportCredentials {
	if config == nil {
		return remotingCreds{TransportCredentials: insecure.NewCredentials()}
	}
	config = config.Clone()
	config.NextProtos = []string{protoRemoting}
	return remotingCreds{credentials.NewTLS(config), config}
}

// ClientHandshake says that the connection is the remoting's.
func (r remotingCreds) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if r.tls == nil {
		if _, err := raw.Write([]byte{remotingMark}); err != nil {
			return nil, nil, err
		}
		return r.TransportCredentials.ClientHandshake(ctx, authority, raw)
	}
	config := r.tls
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(authority)
		if err != nil {
			host = authority
		}
		config = config.Clone()
		config.ServerName = host
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	return conn, tlsInfo(conn), nil
}

// Clone gives credentials of the same kind.
func (r remotingCreds) Clone() credentials.TransportCredentials {
	return remotingCreds{r.TransportCredentials.Clone(), r.tls}
}

func tlsInfo(conn *tls.Conn) credentials.AuthInfo {
	return credentials.TLSInfo{State: conn.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
}
