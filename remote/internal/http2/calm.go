package http2

import "time"

// Frames that bring nothing cost a client next to nothing. Calls and data earn them: a client has many times as many as
// it can need, and one that only sends such frames has calmBurst of them and calmRate a second.
const (
	// calmBurst is how many frames that bring nothing a connection may send at once, and calmRate how many a second:
	// PINGs, SETTINGS, window updates, resets, priorities, frames of unknown types, parts of header lists, and data that is
	// tiny or of no use.
	calmBurst = 1 << 14
	calmRate  = 1 << 10
	// calmPerCall is how many more a call earns, and calmBytes how many bytes of data, sent or received, earn one more.
	calmPerCall = 16
	calmBytes   = 1 << 10
	// tinyData is the size in bytes below which data that does not end a request counts as such a frame.
	tinyData = 256
)

// calm counts the frames of a connection that bring nothing. It is its reader's.
type calm struct {
	left   int
	filled int64  // when it was filled last
	sent   uint64 // what the connection had sent then
}

// spend counts a frame that brings nothing.
func (c *serverConn) spend() error {
	if c.calm.left--; c.calm.left >= 0 {
		return nil
	}
	c.mu.Lock()
	sent := c.total
	c.mu.Unlock()
	k := &c.calm
	now := clock()
	earned := int64(sent-k.sent)/calmBytes + (now-k.filled)*calmRate/int64(time.Second)
	if earned <= 0 {
		return broken(codeCalm, "more than %d frames that bring nothing, and more than %d a second", calmBurst, calmRate)
	}
	k.left, k.filled, k.sent = int(min(earned, calmBurst))-1, now, sent
	return nil
}

// earn counts what earns more of such frames.
func (c *serverConn) earn(frames int) { c.calm.left = min(c.calm.left+frames, calmBurst) }
