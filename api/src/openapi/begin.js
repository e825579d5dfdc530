SwaggerUIBundle({ url: "openapi.json", dom_id: "#page", deepLinking: true, persistAuthorization: true, validatorUrl: null });
