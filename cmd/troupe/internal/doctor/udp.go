package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	pingTries = 3
	pingWait  = 300 * time.Millisecond
)

// ping returns a packet of memberlist, the tasks' gossip, that requests an answer from the node of that name. It has
// the kind of the message and a MessagePack map. A node of another name does not answer.
func ping(task string, number uint32) []byte {
	const kindPing, map2, uint32Follows, shortText, raw16 = 0, 0x82, 0xce, 0xa0, 0xda
	b := []byte{kindPing, map2}
	b = append(b, shortText|byte(len("SeqNo")))
	b = append(b, "SeqNo"...)
	b = append(b, uint32Follows)
	b = binary.BigEndian.AppendUint32(b, number)
	b = append(b, shortText|byte(len("Node")))
	b = append(b, "Node"...)
	b = append(b, raw16)
	b = binary.BigEndian.AppendUint16(b, uint16(len(task)))
	return append(b, task...)
}

// probeUDP sends pings until one is answered. Any packet that comes back from the port counts as an answer.
func probeUDP(ctx context.Context, address, task string) Probe {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return outcome(err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	answer := make([]byte, 64<<10)
	for number := range uint32(pingTries) {
		sent := time.Now()
		if err = c.SetDeadline(sent.Add(pingWait)); err != nil {
			break
		}
		if _, err = c.Write(ping(task, number)); err != nil {
			break
		}
		if _, err = c.Read(answer); err == nil {
			return Probe{Outcome: Answered, RoundTrip: time.Since(sent)}
		}
		if ctx.Err() != nil || errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return outcome(err)
}

// outcome returns the probe for an error.
func outcome(err error) Probe {
	p := Probe{Outcome: Unreachable, Error: err.Error()}
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		p.Outcome = Refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		p.Outcome = TimedOut
	}
	return p
}
