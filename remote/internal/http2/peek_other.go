//go:build !unix

package http2

// peek reports whether there is something to read, and whether the connection is still open, as
// far as this end knows.
func (c *Client) peek() (waiting, alive bool) { return c.in.buffered() > 0, true }
