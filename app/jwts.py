"""Users of an identity provider: JSON Web Tokens. Touches: the provider's key set, over HTTP."""
